package android.view;

import android.content.Context;
import android.os.Handler;
import android.os.IBinder;
import android.os.Looper;
import android.util.AttributeSet;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public class View {
    public static final int VISIBLE = 0x00000000;
    public static final int INVISIBLE = 0x00000004;
    public static final int GONE = 0x00000008;
    public static final int NO_ID = -1;
    private int id = NO_ID;
    private boolean enabled = true;
    private int visibility;
    private OnClickListener clicked;
    private CharSequence description;
    private CharSequence stateDescription;
    private boolean kept;
    private final Context context;
    public static View inflate(Context context, int resource, ViewGroup root) {
        root.addView(StandInLayouts.inflated(resource, context));
        return root;
    }
    public View(Context context) { this.context = context; }
    public View(Context context, @Nullable AttributeSet attrs) { this.context = context; }
    @SuppressWarnings("unchecked") public <T extends View> T findViewById(int id) { return (T) found(id); }
    View found(int id) { return id == this.id ? this : null; }
    public void setId(int id) { this.id = id; }
    public int getId() { return id; }
    public boolean isEnabled() { return enabled; }
    public void setEnabled(boolean enabled) { this.enabled = enabled; }
    public int getVisibility() { return visibility; }
    public void setVisibility(int visibility) { this.visibility = visibility; }
    public void setOnClickListener(@Nullable OnClickListener l) { clicked = l; }
    public boolean performClick() {
        if (clicked == null) return false;
        clicked.onClick(this);
        return true;
    }
    @Nullable public CharSequence getStateDescription() { return stateDescription; }
    public void setStateDescription(@Nullable CharSequence stateDescription) {
        this.stateDescription = stateDescription;
    }
    public CharSequence getContentDescription() { return description; }
    public void setContentDescription(CharSequence contentDescription) { description = contentDescription; }
    public boolean getKeepScreenOn() { return kept; }
    public void setKeepScreenOn(boolean keepScreenOn) { kept = keepScreenOn; }
    public void setOnApplyWindowInsetsListener(OnApplyWindowInsetsListener listener) {}
    public void setPadding(int left, int top, int right, int bottom) {}
    public void setFitsSystemWindows(boolean fitSystemWindows) {}
    public void setLayoutParams(ViewGroup.LayoutParams params) {}
    public boolean post(Runnable action) { return new Handler(Looper.getMainLooper()).post(action); }
    public final Context getContext() { return context; }
    public IBinder getWindowToken() { return null; }
    @Deprecated public void announceForAccessibility(CharSequence text) {}

    public interface OnClickListener {
        void onClick(View v);
    }

    public interface OnApplyWindowInsetsListener {
        @NotNull WindowInsets onApplyWindowInsets(@NotNull View v, @NotNull WindowInsets insets);
    }
}
