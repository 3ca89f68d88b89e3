package android.net;

import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public class ConnectivityManager {
    boolean metered;
    ConnectivityManager() {}
    public boolean isActiveNetworkMetered() { return metered; }
    @Nullable public Network getActiveNetwork() { throw new RuntimeException("Stub!"); }
    @Nullable public NetworkCapabilities getNetworkCapabilities(@Nullable Network network) {
        throw new RuntimeException("Stub!");
    }
    public void registerDefaultNetworkCallback(@NotNull NetworkCallback networkCallback) {
        throw new RuntimeException("Stub!");
    }
    public void unregisterNetworkCallback(@NotNull NetworkCallback networkCallback) {
        throw new RuntimeException("Stub!");
    }

    public static class NetworkCallback {
        public NetworkCallback() {}
        public void onAvailable(@NotNull Network network) {}
        public void onLost(@NotNull Network network) {}
    }
}
