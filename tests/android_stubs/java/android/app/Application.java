package android.app;

import android.content.Context;
import android.content.ComponentCallbacks;
import android.content.ComponentCallbacks2;
import android.content.ContextWrapper;
import android.content.res.Configuration;
import org.jetbrains.annotations.NotNull;

public class Application extends ContextWrapper implements ComponentCallbacks2 {
    void attach(Context base) { attachBaseContext(base); }
    public Application() { super(null); }
    public void onCreate() {}
    public void onTerminate() {}
    public void onConfigurationChanged(@NotNull Configuration newConfig) {}
    @Deprecated public void onLowMemory() {}
    public void onTrimMemory(int level) {}
    public void registerComponentCallbacks(ComponentCallbacks callback) {}
    public void unregisterComponentCallbacks(ComponentCallbacks callback) {}
}
