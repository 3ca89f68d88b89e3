package android.widget;

import android.content.Context;
import android.view.View;

public abstract class AbsSpinner extends AdapterView<SpinnerAdapter> {
    private SpinnerAdapter adapter;
    public AbsSpinner(Context context) { super(context); }
    public SpinnerAdapter getAdapter() { return adapter; }
    public void setAdapter(SpinnerAdapter adapter) { this.adapter = adapter; }
    public void setSelection(int position) {
        this.position = position;
        if (listener != null) listener.onItemSelected(this, null, position, position);
    }
    public View getSelectedView() { throw new RuntimeException("Stub!"); }
}
