package com.google.android.gms.tasks;

import org.jetbrains.annotations.NotNull;

public class RuntimeExecutionException extends RuntimeException {
    public RuntimeExecutionException(@NotNull Throwable cause) { super(cause); }
}
