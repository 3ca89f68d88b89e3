package android.widget;

import android.content.Context;
import android.graphics.Bitmap;
import android.graphics.drawable.Drawable;
import android.util.AttributeSet;
import android.view.View;
import org.jetbrains.annotations.Nullable;

public class ImageView extends View {
    private Bitmap bitmap;
    public ImageView(Context context) { super(context); }
    public ImageView(Context context, @Nullable AttributeSet attrs) { super(context, attrs); }
    public void setImageBitmap(Bitmap bm) { bitmap = bm; }
    public void setImageDrawable(@Nullable Drawable drawable) { throw new RuntimeException("Stub!"); }
    Bitmap bitmap() { return bitmap; }
}
