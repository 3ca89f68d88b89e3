package android.net;

import android.os.Parcelable;

public final class NetworkCapabilities implements Parcelable {
    public static final int NET_CAPABILITY_INTERNET = 12;
    public static final int NET_CAPABILITY_NOT_METERED = 11;
    public static final int NET_CAPABILITY_VALIDATED = 16;
    public NetworkCapabilities() {}
    public boolean hasCapability(int capability) { throw new RuntimeException("Stub!"); }
}
