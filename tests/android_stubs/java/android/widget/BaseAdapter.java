package android.widget;

public abstract class BaseAdapter implements ListAdapter, SpinnerAdapter {
    public BaseAdapter() {}
    public void notifyDataSetChanged() { throw new RuntimeException("Stub!"); }
}
