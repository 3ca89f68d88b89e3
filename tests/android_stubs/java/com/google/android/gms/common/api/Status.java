package com.google.android.gms.common.api;

import org.jetbrains.annotations.Nullable;

public final class Status {
    private final int statusCode;
    private final String statusMessage;
    public Status(int statusCode, @Nullable String statusMessage) {
        this.statusCode = statusCode;
        this.statusMessage = statusMessage;
    }
    public int getStatusCode() { return statusCode; }
    @Nullable public String getStatusMessage() { return statusMessage; }
}
