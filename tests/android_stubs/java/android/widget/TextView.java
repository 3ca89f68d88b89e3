package android.widget;

import android.content.Context;
import android.text.TextWatcher;
import android.util.AttributeSet;
import android.view.View;
import org.jetbrains.annotations.Nullable;

public class TextView extends View {
    private CharSequence text = "";
    private CharSequence error;
    private TextWatcher watcher;
    public TextView(Context context) { super(context); }
    public TextView(Context context, @Nullable AttributeSet attrs) { super(context, attrs); }
    public CharSequence getText() { return text; }
    public final void setText(CharSequence text) {
        this.text = text == null ? "" : text;
        if (watcher != null) watcher.afterTextChanged(new StandInEditable(this.text));
    }
    public final void setText(int resid) { throw new RuntimeException("Stub!"); }
    public final void setHint(CharSequence hint) {}
    public void setTextColor(int color) {}
    public void setInputType(int type) {}
    public CharSequence getError() { return error; }
    public void setError(CharSequence error) { this.error = error; }
    public void addTextChangedListener(TextWatcher watcher) { this.watcher = watcher; }
}
