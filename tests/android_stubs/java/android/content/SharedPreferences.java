package android.content;

import org.jetbrains.annotations.Nullable;

public interface SharedPreferences {
    @Nullable String getString(String key, @Nullable String defValue);
    long getLong(String key, long defValue);
    boolean getBoolean(String key, boolean defValue);
    boolean contains(String key);
    SharedPreferences.Editor edit();

    interface Editor {
        SharedPreferences.Editor putString(String key, @Nullable String value);
        SharedPreferences.Editor putLong(String key, long value);
        SharedPreferences.Editor putBoolean(String key, boolean value);
        SharedPreferences.Editor remove(String key);
        boolean commit();
        void apply();
    }
}
