package android.widget;

import android.content.Context;
import android.text.Editable;
import android.util.AttributeSet;
import org.jetbrains.annotations.Nullable;

public class EditText extends TextView {
    public EditText(Context context) { super(context); }
    public EditText(Context context, @Nullable AttributeSet attrs) { super(context, attrs); }
    public Editable getText() { return new StandInEditable(super.getText()); }
}
