package com.google.android.gms.common.api;

import org.jetbrains.annotations.NotNull;

public class ApiException extends Exception {
    private final Status status;
    public ApiException(@NotNull Status status) {
        super(status.getStatusCode() + ": " + status.getStatusMessage());
        this.status = status;
    }
    public int getStatusCode() { return status.getStatusCode(); }
}
