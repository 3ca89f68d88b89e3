package android.widget;

import android.graphics.Bitmap;

/** No part of Android: what a view shows. */
public final class StandInViews {
    private StandInViews() {}

    /** Returns the bitmap of an image, or null. */
    public static Bitmap bitmap(ImageView image) {
        return image.bitmap();
    }
}
