package android.app;

import android.content.Context;
import android.graphics.drawable.Icon;
import android.os.Parcelable;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public class Notification implements Parcelable {
    public static final int FLAG_ONGOING_EVENT = 0x00000002;
    @Deprecated public static final int PRIORITY_LOW = -1;
    public static final String CATEGORY_PROGRESS = "progress";
    CharSequence title;
    CharSequence text;
    int done;
    int most;
    public int flags;
    public Action[] actions;
    public Notification() {}

    public static class Builder {
        private final Notification made = new Notification();
        public Builder(Context context, String channelId) {}
        @Deprecated public Builder(Context context) {}
        @NotNull public Builder setSmallIcon(int icon) { return this; }
        @NotNull public Builder setContentTitle(CharSequence title) {
            made.title = title;
            return this;
        }
        @NotNull public Builder setContentText(CharSequence text) {
            made.text = text;
            return this;
        }
        @NotNull public Builder setContentIntent(PendingIntent intent) { return this; }
        @NotNull public Builder setOngoing(boolean ongoing) { return this; }
        @NotNull public Builder setOnlyAlertOnce(boolean onlyAlertOnce) { return this; }
        @NotNull public Builder setAutoCancel(boolean autoCancel) { return this; }
        @NotNull public Builder setShowWhen(boolean show) { return this; }
        @NotNull public Builder setCategory(String category) { return this; }
        @NotNull public Builder setProgress(int max, int progress, boolean indeterminate) {
            made.most = max;
            made.done = progress;
            return this;
        }
        @Deprecated public Builder setPriority(int pri) { return this; }
        @NotNull public Builder addAction(Action action) {
            made.actions = new Action[] {action}; return this;
        }
        @NotNull public Notification build() { return made; }
    }

    public static class Action implements Parcelable {
        public PendingIntent actionIntent;
        public CharSequence title;
        private Action(CharSequence title, PendingIntent intent) {
            this.title = title; actionIntent = intent;
        }

        public static final class Builder {
            private final Action made;
            public Builder(Icon icon, CharSequence title, @Nullable PendingIntent intent) {
                made = new Action(title, intent);
            }
            @NotNull public Action build() { return made; }
        }
    }
}
