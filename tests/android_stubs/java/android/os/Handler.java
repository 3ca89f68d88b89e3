package android.os;

import org.jetbrains.annotations.NotNull;

public class Handler {
    private final Looper looper;
    public Handler(@NotNull Looper looper) { this.looper = looper; }
    public final Looper getLooper() { return looper; }
    public final boolean post(@NotNull Runnable r) { return looper.posted(r, 0); }
    public final boolean postDelayed(@NotNull Runnable r, long delayMillis) { return looper.posted(r, delayMillis); }
    public final void removeCallbacks(@NotNull Runnable r) { looper.removed(r); }
    public final void removeCallbacksAndMessages(Object token) { looper.removed(null); }
}
