package android.os;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public final class Looper {
    private static final Looper MAIN = new Looper();
    private final ScheduledThreadPoolExecutor thread = new ScheduledThreadPoolExecutor(1, Looper::thread);
    private static Thread thread(Runnable run) {
        Thread made = new Thread(run, "main-looper");
        made.setDaemon(true);
        return made;
    }
    private final Map<Runnable, Future<?>> waiting = new ConcurrentHashMap<>();
    private Looper() {}
    public static Looper getMainLooper() { return MAIN; }
    @Nullable public static Looper myLooper() { return MAIN.isCurrentThread() ? MAIN : null; }
    public boolean isCurrentThread() { return Thread.currentThread().getName().equals("main-looper"); }
    @NotNull public Thread getThread() { throw new RuntimeException("Stub!"); }
    boolean posted(Runnable run, long delay) {
        waiting.put(run, thread.schedule(() -> { waiting.remove(run); run.run(); }, delay, TimeUnit.MILLISECONDS));
        return true;
    }
    void removed(Runnable run) {
        for (Runnable each : waiting.keySet()) if (run == null || run == each) cancel(waiting.remove(each));
    }
    private static void cancel(Future<?> posted) { if (posted != null) posted.cancel(false); }
}
