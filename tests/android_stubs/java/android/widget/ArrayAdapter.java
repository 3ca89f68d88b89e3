package android.widget;

import android.content.Context;
import java.util.Arrays;
import java.util.List;
import org.jetbrains.annotations.NotNull;

public class ArrayAdapter<T> extends BaseAdapter {
    private final List<T> objects;
    public ArrayAdapter(@NotNull Context context, int resource, @NotNull T[] objects) {
        this.objects = Arrays.asList(objects);
    }
    public ArrayAdapter(@NotNull Context context, int resource, @NotNull List<T> objects) { this.objects = objects; }
    public int getCount() { return objects.size(); }
    public T getItem(int position) { return objects.get(position); }
    public void setDropDownViewResource(int resource) {}
}
