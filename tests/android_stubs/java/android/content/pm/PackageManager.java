package android.content.pm;

import android.content.Intent;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public abstract class PackageManager {
    public static final int PERMISSION_GRANTED = 0;
    public static final int PERMISSION_DENIED = -1;
    @Deprecated public PackageManager() {}
    @Nullable public abstract Intent getLaunchIntentForPackage(@NotNull String packageName);
    public abstract boolean hasSystemFeature(@NotNull String featureName);
}
