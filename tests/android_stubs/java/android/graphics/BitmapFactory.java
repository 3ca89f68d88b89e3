package android.graphics;

import java.awt.image.BufferedImage;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import javax.imageio.ImageIO;

public class BitmapFactory {
    public BitmapFactory() {}
    public static Bitmap decodeByteArray(byte[] data, int offset, int length) {
        try {
            BufferedImage image = ImageIO.read(new ByteArrayInputStream(data, offset, length));
            if (image == null) return null;
            int width = image.getWidth();
            int height = image.getHeight();
            return new Bitmap(image.getRGB(0, 0, width, height, null, 0, width), width, height);
        }
        catch (IOException problem) { return null; }
    }
}
