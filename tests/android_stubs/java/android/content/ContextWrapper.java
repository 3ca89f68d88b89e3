package android.content;

import android.content.pm.ApplicationInfo;
import android.content.pm.PackageManager;
import android.content.res.AssetManager;
import android.content.res.Resources;
import android.os.Looper;
import java.io.File;
import org.jetbrains.annotations.Nullable;

public class ContextWrapper extends Context {
    private Context base;
    public ContextWrapper(Context base) { this.base = base; }
    protected void attachBaseContext(Context base) {
        if (this.base != null) throw new IllegalStateException("Base context already set");
        this.base = base;
    }
    public Context getBaseContext() { return base; }
    public Context getApplicationContext() { return base.getApplicationContext(); }
    public ApplicationInfo getApplicationInfo() { return base.getApplicationInfo(); }
    public AssetManager getAssets() { return base.getAssets(); }
    public Resources getResources() { return base.getResources(); }
    public PackageManager getPackageManager() { return base.getPackageManager(); }
    public ContentResolver getContentResolver() { return base.getContentResolver(); }
    public Looper getMainLooper() { return base.getMainLooper(); }
    public String getPackageName() { return base.getPackageName(); }
    public File getCacheDir() { return base.getCacheDir(); }
    public File getCodeCacheDir() { return base.getCodeCacheDir(); }
    public File getFilesDir() { return base.getFilesDir(); }
    public File getNoBackupFilesDir() { return base.getNoBackupFilesDir(); }
    @Nullable public File getExternalFilesDir(@Nullable String type) { return base.getExternalFilesDir(type); }
    public Object getSystemService(String name) { return base.getSystemService(name); }
    public String getSystemServiceName(Class<?> serviceClass) { return base.getSystemServiceName(serviceClass); }
    public SharedPreferences getSharedPreferences(String name, int mode) {
        return base.getSharedPreferences(name, mode);
    }
    public int checkSelfPermission(String permission) { return base.checkSelfPermission(permission); }
    public void startActivity(Intent intent) { base.startActivity(intent); }
    @Nullable public ComponentName startService(Intent service) { return base.startService(service); }
    @Nullable public ComponentName startForegroundService(Intent service) {
        return base.startForegroundService(service);
    }
    public boolean stopService(Intent name) { return base.stopService(name); }
    public Intent registerReceiver(@Nullable BroadcastReceiver receiver, IntentFilter filter) {
        return base.registerReceiver(receiver, filter);
    }
    public void unregisterReceiver(BroadcastReceiver receiver) { base.unregisterReceiver(receiver); }
}
