package android.os;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;
import org.jetbrains.annotations.NotNull;

public final class PowerManager {
    public static final int PARTIAL_WAKE_LOCK = 0x00000001;
    public static final int THERMAL_STATUS_NONE = 0;
    public static final int THERMAL_STATUS_LIGHT = 1;
    public static final int THERMAL_STATUS_MODERATE = 2;
    public static final int THERMAL_STATUS_SEVERE = 3;
    public static final int THERMAL_STATUS_CRITICAL = 4;
    public static final int THERMAL_STATUS_EMERGENCY = 5;
    public static final int THERMAL_STATUS_SHUTDOWN = 6;
    final List<OnThermalStatusChangedListener> listeners = new ArrayList<>();
    PowerManager() {}
    public void addThermalStatusListener(@NotNull OnThermalStatusChangedListener listener) { listeners.add(listener); }
    public void addThermalStatusListener(@NotNull Executor executor, @NotNull OnThermalStatusChangedListener listener) {
        listeners.add(status -> executor.execute(() -> listener.onThermalStatusChanged(status)));
    }
    public void removeThermalStatusListener(@NotNull OnThermalStatusChangedListener listener) {
        listeners.remove(listener);
    }
    public int getCurrentThermalStatus() { throw new RuntimeException("Stub!"); }
    public float getThermalHeadroom(int forecastSeconds) { throw new RuntimeException("Stub!"); }
    public boolean isPowerSaveMode() { throw new RuntimeException("Stub!"); }
    public WakeLock newWakeLock(int levelAndFlags, String tag) { return new WakeLock(); }

    public interface OnThermalStatusChangedListener {
        void onThermalStatusChanged(int status);
    }

    public final class WakeLock {
        private boolean held;
        private WakeLock() {}
        public void acquire() { held = true; }
        public void acquire(long timeout) { held = true; }
        public void release() { held = false; }
        public boolean isHeld() { return held; }
    }
}
