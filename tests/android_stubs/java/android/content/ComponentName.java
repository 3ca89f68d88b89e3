package android.content;

import android.os.Parcelable;
import org.jetbrains.annotations.NotNull;

public final class ComponentName implements Parcelable {
    public ComponentName(@NotNull Context pkg, @NotNull Class<?> cls) { throw new RuntimeException("Stub!"); }
    @NotNull public String getClassName() { throw new RuntimeException("Stub!"); }
    @NotNull public String getPackageName() { throw new RuntimeException("Stub!"); }
}
