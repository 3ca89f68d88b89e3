package com.google.android.gms.tasks;

import org.jetbrains.annotations.NotNull;

public class TaskCompletionSource<TResult> {
    private final StandInTask<TResult> task = new StandInTask<>();
    public TaskCompletionSource() {}
    @NotNull public Task<TResult> getTask() { return task; }
    public void setResult(TResult result) { task.ended(result, null); }
    public void setException(@NotNull Exception e) { task.ended(null, e); }
}
