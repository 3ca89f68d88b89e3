package android.app;

import android.os.Parcelable;

public final class NotificationChannel implements Parcelable {
    public NotificationChannel(String id, CharSequence name, int importance) {}
    public void setDescription(String description) {}
    public void setShowBadge(boolean showBadge) {}
    public String getId() { throw new RuntimeException("Stub!"); }
}
