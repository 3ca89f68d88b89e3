package android.widget;

import android.content.Context;
import android.util.AttributeSet;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public abstract class CompoundButton extends Button implements Checkable {
    private boolean checked;
    private OnCheckedChangeListener changed;
    public CompoundButton(Context context) { super(context); }
    public CompoundButton(Context context, AttributeSet attrs) { super(context, attrs); }
    public boolean isChecked() { return checked; }
    public void setChecked(boolean checked) {
        this.checked = checked;
        if (changed != null) changed.onCheckedChanged(this, checked);
    }
    public void toggle() { setChecked(!checked); }
    public void setOnCheckedChangeListener(@Nullable OnCheckedChangeListener listener) { changed = listener; }

    public interface OnCheckedChangeListener {
        void onCheckedChanged(@NotNull CompoundButton buttonView, boolean isChecked);
    }
}
