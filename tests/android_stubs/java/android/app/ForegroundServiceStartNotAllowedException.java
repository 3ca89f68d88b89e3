package android.app;

import android.os.Parcelable;
import org.jetbrains.annotations.NotNull;

public final class ForegroundServiceStartNotAllowedException
        extends ServiceStartNotAllowedException implements Parcelable {
    public ForegroundServiceStartNotAllowedException(@NotNull String message) { super(message); }
}
