package android.graphics;

import android.content.ContentResolver;
import android.net.Uri;
import android.util.Size;
import java.awt.image.BufferedImage;
import java.io.IOException;
import java.io.InputStream;
import javax.imageio.ImageIO;
import org.jetbrains.annotations.NotNull;

public final class ImageDecoder implements AutoCloseable {
    public static final int ALLOCATOR_DEFAULT = 0;
    public static final int ALLOCATOR_SOFTWARE = 1;
    public static final int ALLOCATOR_SHARED_MEMORY = 2;
    public static final int ALLOCATOR_HARDWARE = 3;
    private int allocator = ALLOCATOR_DEFAULT;
    private int sampleSize = 1;
    private ImageDecoder() {}
    @NotNull public static Source createSource(@NotNull ContentResolver cr, @NotNull Uri uri) {
        return new FromResolver(cr, uri);
    }
    @NotNull public static Bitmap decodeBitmap(@NotNull Source src, @NotNull OnHeaderDecodedListener listener)
            throws IOException {
        BufferedImage image = image(src);
        ImageDecoder decoder = new ImageDecoder();
        listener.onHeaderDecoded(decoder, new ImageInfo(image), src);
        return decoder.bitmap(image);
    }
    private static BufferedImage image(Source src) throws IOException {
        try (InputStream stream = src.opened()) {
            BufferedImage image = ImageIO.read(stream);
            if (image == null) throw new DecodeException("Failed to create image decoder: 'unimplemented'");
            return image;
        }
    }
    /** The pixels of the largest bitmap that was decoded. */
    static int most;
    private Bitmap bitmap(BufferedImage image) {
        int width = Math.max(1, image.getWidth() / sampleSize);
        int height = Math.max(1, image.getHeight() / sampleSize);
        most = Math.max(most, width * height);
        int[] colors = new int[width * height];
        // As Skia does it: the first pixel that counts is in the middle of its neighbours.
        int first = sampleSize / 2;
        for (int i = 0; i < colors.length; i++) {
            colors[i] = rounded(image.getRGB(first + i % width * sampleSize, first + i / width * sampleSize));
        }
        boolean soft = allocator == ALLOCATOR_SOFTWARE || allocator == ALLOCATOR_SHARED_MEMORY;
        return new Bitmap(colors, width, height, soft ? Bitmap.Config.ARGB_8888 : Bitmap.Config.HARDWARE);
    }
    /** Returns a colour as it is after it was multiplied by its alpha, and divided again. */
    private static int rounded(int argb) {
        int alpha = argb >>> 24;
        if (alpha == 0) return 0;
        int color = alpha << 24;
        for (int shift = 0; shift < 24; shift += 8) {
            int level = Math.round((argb >> shift & 0xFF) * alpha / 255f);
            color |= Math.min(255, Math.round(level * 255f / alpha)) << shift;
        }
        return color;
    }
    public int getAllocator() { return allocator; }
    public void setAllocator(int allocator) { this.allocator = allocator; }
    public void setTargetSampleSize(int sampleSize) {
        if (sampleSize < 1) throw new IllegalArgumentException("sampleSize must be positive! provided " + sampleSize);
        this.sampleSize = sampleSize;
    }
    public void close() {}

    public static abstract class Source {
        private Source() {}
        abstract InputStream opened() throws IOException;
    }

    private static final class FromResolver extends Source {
        private final ContentResolver cr;
        private final Uri uri;
        FromResolver(ContentResolver cr, Uri uri) {
            this.cr = cr;
            this.uri = uri;
        }
        @Override InputStream opened() throws IOException { return cr.openInputStream(uri); }
    }

    public static final class ImageInfo {
        private final Size size;
        private ImageInfo(BufferedImage image) { size = new Size(image.getWidth(), image.getHeight()); }
        @NotNull public Size getSize() { return size; }
    }

    public interface OnHeaderDecodedListener {
        void onHeaderDecoded(@NotNull ImageDecoder decoder, @NotNull ImageInfo info, @NotNull Source source);
    }

    public static final class DecodeException extends IOException {
        public static final int SOURCE_EXCEPTION = 1;
        public static final int SOURCE_INCOMPLETE = 2;
        public static final int SOURCE_MALFORMED_DATA = 3;
        private DecodeException(String message) { super(message); }
        public int getError() { return SOURCE_MALFORMED_DATA; }
    }
}
