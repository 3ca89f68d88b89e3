package android.widget;

import android.content.Context;
import android.util.AttributeSet;
import org.jetbrains.annotations.Nullable;

public class Button extends TextView {
    public Button(Context context) { super(context); }
    public Button(Context context, @Nullable AttributeSet attrs) { super(context, attrs); }
}
