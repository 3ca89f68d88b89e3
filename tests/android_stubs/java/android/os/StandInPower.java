package android.os;

import java.util.ArrayList;

/** No part of Android: the temperature of the device that a test plays. */
public final class StandInPower {
    private StandInPower() {}

    public static PowerManager manager() {
        return new PowerManager();
    }

    public static int listeners(PowerManager manager) {
        return manager.listeners.size();
    }

    public static void tell(PowerManager manager, int status) {
        for (PowerManager.OnThermalStatusChangedListener listener : new ArrayList<>(manager.listeners)) {
            listener.onThermalStatusChanged(status);
        }
    }
}
