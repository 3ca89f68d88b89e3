package android.content;

import android.content.res.Configuration;
import org.jetbrains.annotations.NotNull;

public interface ComponentCallbacks {
    void onConfigurationChanged(@NotNull Configuration newConfig);
    @Deprecated void onLowMemory();
}
