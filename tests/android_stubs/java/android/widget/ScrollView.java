package android.widget;

import android.content.Context;
import android.util.AttributeSet;
import org.jetbrains.annotations.Nullable;

public class ScrollView extends FrameLayout {
    public ScrollView(Context context) { super(context); }
    public ScrollView(Context context, @Nullable AttributeSet attrs) { super(context, attrs); }
}
