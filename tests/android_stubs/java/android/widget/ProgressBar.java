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
    public void setMax(int max) { this.max = max; }
    public int getProgress() { return progress; }
    public void setProgress(int progress) { this.progress = progress; }
    public boolean isIndeterminate() { return indeterminate; }
    public void setIndeterminate(boolean indeterminate) { this.indeterminate = indeterminate; }
}
