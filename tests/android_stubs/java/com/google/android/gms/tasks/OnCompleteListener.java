package com.google.android.gms.tasks;

import org.jetbrains.annotations.NotNull;

public interface OnCompleteListener<TResult> {
    void onComplete(@NotNull Task<TResult> task);
}
