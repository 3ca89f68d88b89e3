package android.content.pm;

import android.os.Parcelable;

public class ApplicationInfo extends PackageItemInfo implements Parcelable {
    public static final int FLAG_DEBUGGABLE = 1<<1;
    public int flags;
    public String nativeLibraryDir;
    public ApplicationInfo() {}
}
