package android.widget;

import android.content.Context;
import android.view.View;
import android.view.ViewGroup;
import org.jetbrains.annotations.Nullable;

public abstract class AdapterView<T extends Adapter> extends ViewGroup {
    public AdapterView(Context context) { super(context); }
    public abstract T getAdapter();
    public abstract void setAdapter(T adapter);
    int position;
    public int getSelectedItemPosition() { return position; }
    public abstract void setSelection(int position);
    public Object getSelectedItem() {
        T adapter = getAdapter();
        return adapter == null ? null : adapter.getItem(position);
    }
    public abstract View getSelectedView();
    OnItemSelectedListener listener;
    public void setOnItemSelectedListener(@Nullable OnItemSelectedListener listener) { this.listener = listener; }

    public interface OnItemSelectedListener {
        void onItemSelected(AdapterView<?> parent, View view, int position, long id);
        void onNothingSelected(AdapterView<?> parent);
    }
}
