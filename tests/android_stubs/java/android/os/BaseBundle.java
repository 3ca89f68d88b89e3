package android.os;

import java.util.HashMap;
import java.util.Map;
import org.jetbrains.annotations.Nullable;

public class BaseBundle {
    final Map<String, Object> values = new HashMap<>();
    BaseBundle() {}
    @Nullable public String getString(@Nullable String key) { return (String) values.get(key); }
    public String getString(@Nullable String key, String defaultValue) {
        Object value = values.get(key);
        return value == null ? defaultValue : (String) value;
    }
    public int getInt(String key) { return getInt(key, 0); }
    public int getInt(String key, int defaultValue) {
        Object value = values.get(key);
        return value == null ? defaultValue : (Integer) value;
    }
    public long getLong(String key) { return getLong(key, 0L); }
    public long getLong(String key, long defaultValue) {
        Object value = values.get(key);
        return value == null ? defaultValue : (Long) value;
    }
    public boolean getBoolean(String key) { return getBoolean(key, false); }
    public boolean getBoolean(String key, boolean defaultValue) {
        Object value = values.get(key);
        return value == null ? defaultValue : (Boolean) value;
    }
    public boolean containsKey(String key) { return values.containsKey(key); }
    public void putString(@Nullable String key, @Nullable String value) { values.put(key, value); }
    public void putInt(@Nullable String key, int value) { values.put(key, value); }
    public void putLong(@Nullable String key, long value) { values.put(key, value); }
    public void putBoolean(@Nullable String key, boolean value) { values.put(key, value); }
}
