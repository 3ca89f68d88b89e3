package android.graphics;

import android.os.Parcelable;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import org.jetbrains.annotations.NotNull;

public final class Bitmap implements Parcelable {
    final int[] colors;
    private final int width;
    private final int height;
    private final Config config;
    private boolean recycled;
    Bitmap(int[] colors, int width, int height) { this(colors, width, height, Config.ARGB_8888); }
    Bitmap(int[] colors, int width, int height, Config config) {
        this.colors = colors;
        this.width = width;
        this.height = height;
        this.config = config;
    }
    public static Bitmap createBitmap(@NotNull int[] colors, int width, int height, @NotNull Config config) {
        return new Bitmap(colors.clone(), width, height);
    }
    public static Bitmap createBitmap(int width, int height, @NotNull Config config) {
        return new Bitmap(new int[width * height], width, height);
    }
    public static Bitmap createScaledBitmap(@NotNull Bitmap src, int dstWidth, int dstHeight, boolean filter) {
        throw new RuntimeException("Stub!");
    }
    public boolean compress(@NotNull CompressFormat format, int quality, @NotNull OutputStream stream) {
        try {
            stream.write((format + " " + width + "x" + height).getBytes(StandardCharsets.UTF_8));
            return true;
        }
        catch (IOException problem) { return false; }
    }
    public int getWidth() { return width; }
    public int getHeight() { return height; }
    public void getPixels(@NotNull int[] pixels, int offset, int stride, int x, int y, int width, int height) {
        if (recycled) throw new IllegalStateException("Can't call getPixels() on a recycled bitmap");
        if (config == Config.HARDWARE) {
            throw new IllegalStateException("unable to getPixels(), pixel access is not supported on Config#HARDWARE");
        }
        for (int row = 0; row < height; row++) {
            System.arraycopy(colors, (y + row) * this.width + x, pixels, offset + row * stride, width);
        }
    }
    public void setPixels(@NotNull int[] pixels, int offset, int stride, int x, int y, int width, int height) {
        throw new RuntimeException("Stub!");
    }
    public void recycle() { recycled = true; }

    public enum Config { ALPHA_8, RGB_565, @Deprecated ARGB_4444, ARGB_8888, RGBA_F16, HARDWARE, RGBA_1010102 }

    public enum CompressFormat { JPEG, PNG, @Deprecated WEBP, WEBP_LOSSY, WEBP_LOSSLESS }
}
