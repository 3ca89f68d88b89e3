package android.app;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jetbrains.annotations.NotNull;

public class NotificationManager {
    public static final int IMPORTANCE_LOW = 2;
    public static final int IMPORTANCE_DEFAULT = 3;
    final Map<Integer, Notification> shown = new HashMap<>();
    final List<NotificationChannel> channels = new ArrayList<>();
    NotificationManager() {}
    public void createNotificationChannel(@NotNull NotificationChannel channel) { channels.add(channel); }
    public void notify(int id, Notification notification) { shown.put(id, notification); }
    public void cancel(int id) { shown.remove(id); }
}
