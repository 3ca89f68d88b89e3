package android.content.res;

import android.os.Parcelable;

public final class Configuration implements Parcelable, Comparable<Configuration> {
    public static final int ORIENTATION_LANDSCAPE = 2;
    public static final int ORIENTATION_PORTRAIT = 1;
    public int orientation;
    public Configuration() {}
    public Configuration(Configuration o) { orientation = o.orientation; }
    public int compareTo(Configuration that) { throw new RuntimeException("Stub!"); }
}
