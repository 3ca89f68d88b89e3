package android.graphics;

/** No part of Android: the pixels that a bitmap was made of. */
public final class StandInBitmaps {
    private StandInBitmaps() {}

    public static int[] argb(Bitmap bitmap) {
        return bitmap.colors.clone();
    }

    /** Returns the pixels of the largest photo that was decoded. */
    public static int decoded() {
        return ImageDecoder.most;
    }
}
