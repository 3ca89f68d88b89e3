package android.os;

import java.io.File;

public class Environment {
    public Environment() {}
    public static final String MEDIA_MOUNTED = "mounted";
    public static final String DIRECTORY_PICTURES = "Pictures";
    public static String getExternalStorageState() { return MEDIA_MOUNTED; }
    public static File getExternalStoragePublicDirectory(String type) {
        return new File(System.getProperty("android.os.Environment.storage", "/storage"), type);
    }
}
