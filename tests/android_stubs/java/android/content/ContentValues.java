package android.content;

import android.os.Parcelable;
import java.util.HashMap;
import java.util.Map;

public final class ContentValues implements Parcelable {
    private final Map<String, Object> values = new HashMap<>();
    public ContentValues() {}
    public void put(String key, String value) { values.put(key, value); }
    public void put(String key, Integer value) { values.put(key, value); }
    public void put(String key, Long value) { values.put(key, value); }
    public void put(String key, Boolean value) { values.put(key, value); }
    public void clear() { values.clear(); }
    public Object get(String key) { return values.get(key); }
    public String getAsString(String key) {
        Object value = values.get(key);
        return value == null ? null : value.toString();
    }
}
