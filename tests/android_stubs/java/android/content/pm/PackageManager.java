package android.content.pm;

import org.jetbrains.annotations.NotNull;

public abstract class PackageManager {
    public static final int PERMISSION_GRANTED = 0;
    public static final int PERMISSION_DENIED = -1;
    @Deprecated public PackageManager() {}
    public abstract boolean hasSystemFeature(@NotNull String featureName);
}
