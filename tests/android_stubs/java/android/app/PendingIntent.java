package android.app;

import android.content.Context;
import android.content.Intent;
import android.os.Parcelable;
import org.jetbrains.annotations.NotNull;

public final class PendingIntent implements Parcelable {
    public static final int FLAG_IMMUTABLE = 1<<26;
    public static final int FLAG_UPDATE_CURRENT = 1<<27;
    public static final int FLAG_CANCEL_CURRENT = 1<<28;
    private PendingIntent() {}
    public static PendingIntent getActivity(Context context, int requestCode, @NotNull Intent intent, int flags) {
        return new PendingIntent();
    }
    public static PendingIntent getService(Context context, int requestCode, @NotNull Intent intent, int flags) {
        return new PendingIntent();
    }
    public static PendingIntent getForegroundService(Context context, int requestCode, @NotNull Intent intent,
            int flags) {
        return new PendingIntent();
    }
    public void cancel() {}
}
