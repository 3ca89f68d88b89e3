package android.os;

public class Environment {
    public Environment() {}
    public static final String MEDIA_MOUNTED = "mounted";
    public static final String DIRECTORY_PICTURES = "Pictures";
    public static String getExternalStorageState() { return MEDIA_MOUNTED; }
}
