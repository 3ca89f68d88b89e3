package android.content;

import android.os.Parcelable;

public class IntentFilter implements Parcelable {
    public IntentFilter() { throw new RuntimeException("Stub!"); }
    public IntentFilter(String action) { throw new RuntimeException("Stub!"); }
}
