package android.graphics.drawable;

import android.content.Context;
import android.os.Parcelable;

public final class Icon implements Parcelable {
    private Icon() {}
    public static Icon createWithResource(Context context, int resId) { return new Icon(); }
}
