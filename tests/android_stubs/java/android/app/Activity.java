package android.app;

import android.content.Context;
import android.content.ComponentCallbacks2;
import android.content.Intent;
import android.content.res.Configuration;
import android.os.Bundle;
import android.os.Handler;
import android.os.Looper;
import android.view.ContextThemeWrapper;
import android.view.StandInLayouts;
import android.view.View;
import android.view.ViewGroup;
import android.view.Window;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public class Activity extends ContextThemeWrapper implements ComponentCallbacks2 {
    public static final int RESULT_OK = -1;
    public static final int RESULT_CANCELED = 0;
    Application application;
    private View content;
    private final Window window = new StandInWindow(this);
    private boolean destroyed;
    int asked;
    String[] wanted = {};
    void attach(Context base, Application application) {
        attachBaseContext(base);
        this.application = application;
    }
    public Activity() {}
    protected void onCreate(@Nullable Bundle savedInstanceState) {}
    protected void onStart() {}
    protected void onResume() {}
    protected void onPause() {}
    protected void onStop() {}
    protected void onDestroy() { destroyed = true; }
    protected void onNewIntent(Intent intent) {}
    protected void onSaveInstanceState(@NotNull Bundle outState) {}
    protected void onActivityResult(int requestCode, int resultCode, Intent data) {}
    public void onRequestPermissionsResult(int requestCode, @NotNull String[] permissions,
            @NotNull int[] grantResults) {}
    @Deprecated public void onBackPressed() {}
    public void onConfigurationChanged(@NotNull Configuration newConfig) {}
    @Deprecated public void onLowMemory() {}
    public void onTrimMemory(int level) {}
    public Object onRetainNonConfigurationInstance() { return null; }
    public Object getLastNonConfigurationInstance() { return null; }
    public Intent getIntent() { return new Intent(); }
    public final Application getApplication() { return application; }
    public Window getWindow() { return window; }
    public void setContentView(int layoutResID) { content = StandInLayouts.inflated(layoutResID, this); }
    public void setContentView(View view) { content = view; }
    public void setContentView(View view, ViewGroup.LayoutParams params) { content = view; }
    public <T extends View> T findViewById(int id) { return content == null ? null : content.findViewById(id); }
    public final <T extends View> T requireViewById(int id) {
        T view = findViewById(id);
        if (view == null) throw new IllegalArgumentException("ID does not reference a View inside this Activity");
        return view;
    }
    public final void runOnUiThread(Runnable action) {
        if (Looper.myLooper() != null) action.run();
        else new Handler(Looper.getMainLooper()).post(action);
    }
    public boolean isDestroyed() { return destroyed; }
    public boolean isFinishing() { return false; }
    public boolean isChangingConfigurations() { return false; }
    public void finish() { throw new RuntimeException("Stub!"); }
    public final void requestPermissions(@NotNull String[] permissions, int requestCode) {
        wanted = permissions;
        asked = requestCode;
    }
    public boolean shouldShowRequestPermissionRationale(@NotNull String permission) {
        throw new RuntimeException("Stub!");
    }
    public void startActivityForResult(Intent intent, int requestCode) {
        startActivity(intent);
        asked = requestCode;
    }
}
