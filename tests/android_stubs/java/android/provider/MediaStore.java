package android.provider;

import android.content.ContentResolver;
import android.graphics.Bitmap;
import android.net.Uri;

public final class MediaStore {
    public MediaStore() {}
    public static final String ACTION_PICK_IMAGES = "android.provider.action.PICK_IMAGES";
    public static final String VOLUME_EXTERNAL_PRIMARY = "external_primary";

    public interface MediaColumns {
        String DATA = "_data";
        String DISPLAY_NAME = "_display_name";
        String MIME_TYPE = "mime_type";
        String RELATIVE_PATH = "relative_path";
        String IS_PENDING = "is_pending";
    }

    public static final class Images {
        public Images() {}

        public interface ImageColumns extends MediaColumns {
        }

        public static final class Media implements ImageColumns {
            public static final Uri EXTERNAL_CONTENT_URI = getContentUri("external");
            public Media() {}
            public static Uri getContentUri(String volumeName) {
                return Uri.parse("content://media/" + volumeName + "/images/media");
            }
            @Deprecated public static String insertImage(ContentResolver cr, Bitmap source, String title,
                    String description) {
                throw new RuntimeException("Stub!");
            }
        }
    }
}
