package android.view;

import android.content.Context;
import android.util.AttributeSet;
import java.util.ArrayList;
import java.util.List;
import org.jetbrains.annotations.Nullable;

public abstract class ViewGroup extends View {
    final List<View> children = new ArrayList<>();
    public ViewGroup(Context context) { super(context); }
    public ViewGroup(Context context, @Nullable AttributeSet attrs) { super(context, attrs); }
    View found(int id) {
        for (View child : children) {
            View found = child.found(id);
            if (found != null) return found;
        }
        return super.found(id);
    }
    public void addView(View child) { children.add(child); }
    public void addView(View child, LayoutParams params) { children.add(child); }
    public int getChildCount() { return children.size(); }
    public View getChildAt(int index) { return children.get(index); }

    public static class LayoutParams {
        public static final int MATCH_PARENT = -1;
        public static final int WRAP_CONTENT = -2;
        public int width;
        public int height;
        public LayoutParams(int width, int height) {
            this.width = width;
            this.height = height;
        }
    }
}
