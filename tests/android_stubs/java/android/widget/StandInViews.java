package android.widget;

import android.graphics.Bitmap;

/** No part of Android: what a view shows. */
public final class StandInViews {
    private StandInViews() {}

    /** Returns the bitmap of an image, or null. */
    public static Bitmap bitmap(ImageView image) {
        return image.bitmap();
    }

    /** Moves a slider, as a finger does. */
    public static void slide(SeekBar bar, int progress) {
        bar.move(progress, true);
    }
}
