package android.graphics;

import android.os.Parcelable;

public final class Insets implements Parcelable {
    public final int left = 0;
    public final int top = 0;
    public final int right = 0;
    public final int bottom = 0;
    private Insets() {}
}
