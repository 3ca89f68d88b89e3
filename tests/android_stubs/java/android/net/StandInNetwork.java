package android.net;

/** No part of Android: a connection that is metered, or not. */
public final class StandInNetwork {
    private StandInNetwork() {}

    public static ConnectivityManager of(boolean metered) {
        ConnectivityManager manager = new ConnectivityManager();
        manager.metered = metered;
        return manager;
    }
}
