package com.google.android.gms.tasks;

import android.app.Activity;
import android.os.Handler;
import android.os.Looper;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;

final class StandInTask<T> extends Task<T> {
    private boolean complete;
    private T result;
    private Exception problem;
    private final List<Runnable> waiting = new ArrayList<>();
    synchronized StandInTask<T> ended(T result, Exception problem) {
        if (complete) throw new IllegalStateException("Task is already complete");
        complete = true;
        this.result = result;
        this.problem = problem;
        for (Runnable run : waiting) run.run();
        notifyAll();
        return this;
    }
    static <T> T awaited(Task<T> task, long most) throws ExecutionException, InterruptedException {
        if (Looper.myLooper() != null) {
            throw new IllegalStateException("Must not be called on the main application thread");
        }
        synchronized (task) {
            long end = System.currentTimeMillis() + most;
            while (!task.isComplete() && (most == Long.MAX_VALUE || System.currentTimeMillis() < end)) task.wait(10);
        }
        if (task.getException() != null) throw new ExecutionException(task.getException());
        return task.isComplete() ? task.getResult() : null;
    }
    private synchronized Task<T> when(Executor executor, Runnable run) {
        Handler main = new Handler(Looper.getMainLooper());
        Runnable told = executor == null ? () -> main.post(run) : () -> executor.execute(run);
        if (complete) told.run();
        else waiting.add(told);
        return this;
    }
    public synchronized boolean isComplete() { return complete; }
    public synchronized boolean isSuccessful() { return complete && problem == null; }
    public boolean isCanceled() { return false; }
    public synchronized T getResult() {
        if (!complete) throw new IllegalStateException("Task is not yet complete");
        if (problem != null) throw new RuntimeExecutionException(problem);
        return result;
    }
    public synchronized <X extends Throwable> T getResult(Class<X> exceptionType) throws X {
        if (exceptionType.isInstance(problem)) throw exceptionType.cast(problem);
        return getResult();
    }
    public synchronized Exception getException() { return problem; }
    public Task<T> addOnSuccessListener(OnSuccessListener<? super T> listener) {
        return when(null, () -> { if (problem == null) listener.onSuccess(result); });
    }
    public Task<T> addOnSuccessListener(Executor executor, OnSuccessListener<? super T> listener) {
        return when(executor, () -> { if (problem == null) listener.onSuccess(result); });
    }
    public Task<T> addOnSuccessListener(Activity activity, OnSuccessListener<? super T> listener) {
        return addOnSuccessListener(listener);
    }
    public Task<T> addOnFailureListener(OnFailureListener listener) {
        return when(null, () -> { if (problem != null) listener.onFailure(problem); });
    }
    public Task<T> addOnFailureListener(Executor executor, OnFailureListener listener) {
        return when(executor, () -> { if (problem != null) listener.onFailure(problem); });
    }
    public Task<T> addOnFailureListener(Activity activity, OnFailureListener listener) {
        return addOnFailureListener(listener);
    }
    public Task<T> addOnCompleteListener(OnCompleteListener<T> listener) {
        return when(null, () -> listener.onComplete(this));
    }
    public Task<T> addOnCompleteListener(Executor executor, OnCompleteListener<T> listener) {
        return when(executor, () -> listener.onComplete(this));
    }
}
