package com.google.android.gms.tasks;

import android.app.Activity;
import java.util.concurrent.Executor;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public abstract class Task<TResult> {
    public Task() {}
    public abstract boolean isComplete();
    public abstract boolean isSuccessful();
    public abstract boolean isCanceled();
    public abstract TResult getResult();
    public abstract <X extends Throwable> TResult getResult(@NotNull Class<X> exceptionType) throws X;
    @Nullable public abstract Exception getException();
    @NotNull public abstract Task<TResult> addOnSuccessListener(@NotNull OnSuccessListener<? super TResult> listener);
    @NotNull public abstract Task<TResult> addOnSuccessListener(@NotNull Executor executor,
            @NotNull OnSuccessListener<? super TResult> listener);
    @NotNull public abstract Task<TResult> addOnSuccessListener(@NotNull Activity activity,
            @NotNull OnSuccessListener<? super TResult> listener);
    @NotNull public abstract Task<TResult> addOnFailureListener(@NotNull OnFailureListener listener);
    @NotNull public abstract Task<TResult> addOnFailureListener(@NotNull Executor executor,
            @NotNull OnFailureListener listener);
    @NotNull public abstract Task<TResult> addOnFailureListener(@NotNull Activity activity,
            @NotNull OnFailureListener listener);
    @NotNull public Task<TResult> addOnCompleteListener(@NotNull OnCompleteListener<TResult> listener) {
        throw new UnsupportedOperationException("addOnCompleteListener is not implemented");
    }
    @NotNull public Task<TResult> addOnCompleteListener(@NotNull Executor executor,
            @NotNull OnCompleteListener<TResult> listener) {
        throw new UnsupportedOperationException("addOnCompleteListener is not implemented");
    }
    @NotNull public Task<TResult> addOnCanceledListener(@NotNull OnCanceledListener listener) {
        throw new UnsupportedOperationException("addOnCanceledListener is not implemented.");
    }
}
