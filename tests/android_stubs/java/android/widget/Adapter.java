package android.widget;

public interface Adapter {
    int getCount();
    Object getItem(int position);
}
