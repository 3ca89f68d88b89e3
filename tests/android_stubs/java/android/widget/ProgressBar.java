package android.widget;

import android.content.Context;
import android.util.AttributeSet;
import android.view.View;
import org.jetbrains.annotations.Nullable;

public class ProgressBar extends View {
    private int max = 100;
    private int progress;
    private boolean indeterminate;
    public ProgressBar(Context context) { super(context); }
    public ProgressBar(Context context, @Nullable AttributeSet attrs) { super(context, attrs); }
    public int getMax() { return max; }
    public void setMax(int max) {
        this.max = Math.max(0, max);
        setProgress(progress);
    }
    public int getProgress() { return progress; }
    public void setProgress(int progress) { move(progress, false); }
    final void move(int progress, boolean fromUser) {
        int kept = Math.max(0, Math.min(progress, max));
        if (kept == this.progress) return;
        this.progress = kept;
        moved(fromUser);
    }
    void moved(boolean fromUser) {}
    public boolean isIndeterminate() { return indeterminate; }
    public void setIndeterminate(boolean indeterminate) { this.indeterminate = indeterminate; }
}
