package android.widget;

import android.content.Context;
import android.util.AttributeSet;

public class CheckBox extends CompoundButton {
    public CheckBox(Context context) { super(context); }
    public CheckBox(Context context, AttributeSet attrs) { super(context, attrs); }
}
