package com.google.android.gms.tasks;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jetbrains.annotations.NotNull;

public final class Tasks {
    private Tasks() {}
    public static <TResult> TResult await(@NotNull Task<TResult> task) throws ExecutionException, InterruptedException {
        return StandInTask.awaited(task, Long.MAX_VALUE);
    }
    public static <TResult> TResult await(@NotNull Task<TResult> task, long timeout, @NotNull TimeUnit unit)
            throws ExecutionException, InterruptedException, TimeoutException {
        TResult result = StandInTask.awaited(task, unit.toMillis(timeout));
        if (!task.isComplete()) throw new TimeoutException("Timed out waiting for Task");
        return result;
    }
    @NotNull public static <TResult> Task<TResult> forResult(TResult result) {
        return new StandInTask<TResult>().ended(result, null);
    }
    @NotNull public static <TResult> Task<TResult> forException(@NotNull Exception e) {
        return new StandInTask<TResult>().ended(null, e);
    }
}
