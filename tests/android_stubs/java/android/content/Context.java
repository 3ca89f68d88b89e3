package android.content;

import android.content.pm.ApplicationInfo;
import android.content.pm.PackageManager;
import android.content.res.AssetManager;
import android.content.res.Resources;
import android.os.Looper;
import java.io.File;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public abstract class Context {
    public static final int MODE_PRIVATE = 0x0000;
    public static final String ACTIVITY_SERVICE = "activity";
    public static final String CONNECTIVITY_SERVICE = "connectivity";
    public static final String NOTIFICATION_SERVICE = "notification";
    public static final String POWER_SERVICE = "power";
    public Context() {}
    public abstract Context getApplicationContext();
    public abstract ApplicationInfo getApplicationInfo();
    public abstract AssetManager getAssets();
    public abstract Resources getResources();
    public abstract PackageManager getPackageManager();
    public abstract ContentResolver getContentResolver();
    public abstract Looper getMainLooper();
    public abstract String getPackageName();
    public abstract File getCacheDir();
    public abstract File getCodeCacheDir();
    public abstract File getFilesDir();
    public abstract File getNoBackupFilesDir();
    @Nullable public abstract File getExternalFilesDir(@Nullable String type);
    public abstract Object getSystemService(@NotNull String name);
    @Nullable public abstract String getSystemServiceName(@NotNull Class<?> serviceClass);
    @SuppressWarnings("unchecked") public final <T> T getSystemService(@NotNull Class<T> serviceClass) {
        String name = getSystemServiceName(serviceClass);
        return name != null ? (T) getSystemService(name) : null;
    }
    @NotNull public final CharSequence getText(int resId) { return getResources().getText(resId); }
    @NotNull public final String getString(int resId) { return getResources().getString(resId); }
    @NotNull public final String getString(int resId, Object... formatArgs) {
        return getResources().getString(resId, formatArgs);
    }
    public abstract SharedPreferences getSharedPreferences(String name, int mode);
    public abstract int checkSelfPermission(@NotNull String permission);
    public abstract void startActivity(Intent intent);
    @Nullable public abstract ComponentName startService(Intent service);
    @Nullable public abstract ComponentName startForegroundService(Intent service);
    public abstract boolean stopService(Intent service);
    @Nullable public abstract Intent registerReceiver(@Nullable BroadcastReceiver receiver, IntentFilter filter);
    public abstract void unregisterReceiver(BroadcastReceiver receiver);
    public void registerComponentCallbacks(ComponentCallbacks callback) {
        getApplicationContext().registerComponentCallbacks(callback);
    }
    public void unregisterComponentCallbacks(ComponentCallbacks callback) {
        getApplicationContext().unregisterComponentCallbacks(callback);
    }
}
