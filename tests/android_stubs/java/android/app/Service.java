package android.app;

import android.content.Context;
import android.content.ComponentCallbacks2;
import android.content.ContextWrapper;
import android.content.Intent;
import android.content.res.Configuration;
import android.os.IBinder;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public abstract class Service extends ContextWrapper implements ComponentCallbacks2 {
    public static final int START_NOT_STICKY = 2;
    public static final int START_FLAG_REDELIVERY = 0x0001;
    public static final int START_STICKY = 1;
    public static final int START_REDELIVER_INTENT = 3;
    public static final int STOP_FOREGROUND_REMOVE = 1<<0;
    public static final int STOP_FOREGROUND_DETACH = 1<<1;
    Application application;
    Notification foreground;
    int foregroundType;
    boolean stopped;
    boolean forbidden;
    void attach(Context base, Application application) {
        attachBaseContext(base);
        this.application = application;
    }
    public Service() { super(null); }
    public final Application getApplication() { return application; }
    public void onCreate() {}
    public void onDestroy() {}
    public void onConfigurationChanged(Configuration newConfig) {}
    @Deprecated public void onLowMemory() {}
    public void onTrimMemory(int level) {}
    public int onStartCommand(Intent intent, int flags, int startId) { return START_STICKY; }
    @Nullable public abstract IBinder onBind(Intent intent);
    public boolean onUnbind(Intent intent) { return false; }
    public void onTaskRemoved(Intent rootIntent) {}
    public void onTimeout(int startId) {}
    public void onTimeout(int startId, int fgsType) {}
    public final void startForeground(int id, Notification notification) { foreground = notification; }
    public final void startForeground(int id, @NotNull Notification notification, int foregroundServiceType) {
        if (forbidden) throw new ForegroundServiceStartNotAllowedException("in the background");
        foreground = notification;
        foregroundType = foregroundServiceType;
    }
    public final void stopForeground(int notificationBehavior) { foreground = null; }
    @Deprecated public final void stopForeground(boolean removeNotification) { foreground = null; }
    public final void stopSelf() { stopped = true; foreground = null; }
    public final void stopSelf(int startId) { stopSelf(); }
}
