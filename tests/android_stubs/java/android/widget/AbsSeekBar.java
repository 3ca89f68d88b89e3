package android.widget;

import android.content.Context;
import android.util.AttributeSet;

public abstract class AbsSeekBar extends ProgressBar {
    public AbsSeekBar(Context context) { super(context); }
    public AbsSeekBar(Context context, AttributeSet attrs) { super(context, attrs); }
}
