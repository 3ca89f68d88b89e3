package android.content;

import android.net.Uri;
import android.os.Parcelable;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public class Intent implements Parcelable {
    public static final String ACTION_MAIN = "android.intent.action.MAIN";
    public static final String ACTION_OPEN_DOCUMENT = "android.intent.action.OPEN_DOCUMENT";
    public static final String ACTION_SEND = "android.intent.action.SEND";
    public static final String ACTION_VIEW = "android.intent.action.VIEW";
    public static final String CATEGORY_OPENABLE = "android.intent.category.OPENABLE";
    public static final String EXTRA_STREAM = "android.intent.extra.STREAM";
    public static final String EXTRA_TEXT = "android.intent.extra.TEXT";
    public static final int FLAG_ACTIVITY_NEW_TASK = 0x10000000;
    public static final int FLAG_ACTIVITY_SINGLE_TOP = 0x20000000;
    public static final int FLAG_ACTIVITY_CLEAR_TOP = 0x04000000;
    public static final int FLAG_GRANT_READ_URI_PERMISSION = 0x00000001;
    private String action;
    private String type;
    private Uri data;
    private final Set<String> categories = new HashSet<>();
    private final Map<String, Object> extras = new HashMap<>();
    public Intent() {}
    public Intent(String action) { this.action = action; }
    public Intent(Context packageContext, Class<?> cls) {}
    public static Intent createChooser(Intent target, CharSequence title) {
        return new Intent("android.intent.action.CHOOSER").putExtra("android.intent.extra.INTENT", target);
    }
    @Nullable public String getAction() { return action; }
    @NotNull public Intent setAction(@Nullable String action) {
        this.action = action;
        return this;
    }
    @Nullable public String getType() { return type; }
    @NotNull public Intent setType(@Nullable String type) {
        this.data = null;
        this.type = type;
        return this;
    }
    @Nullable public Uri getData() { return data; }
    @NotNull public Intent setData(@Nullable Uri data) {
        this.data = data;
        this.type = null;
        return this;
    }
    @NotNull public Intent addCategory(String category) {
        categories.add(category);
        return this;
    }
    public boolean hasCategory(String category) { return categories.contains(category); }
    @NotNull public Intent setPackage(@Nullable String packageName) { return this; }
    @NotNull public Intent addFlags(int flags) { return this; }
    @NotNull public Intent setFlags(int flags) { return this; }
    @NotNull public Intent putExtra(String name, String value) {
        extras.put(name, value);
        return this;
    }
    @NotNull public Intent putExtra(String name, int value) {
        extras.put(name, value);
        return this;
    }
    @NotNull public Intent putExtra(String name, boolean value) {
        extras.put(name, value);
        return this;
    }
    @NotNull public Intent putExtra(String name, @Nullable Parcelable value) {
        extras.put(name, value);
        return this;
    }
    @Nullable public String getStringExtra(String name) { return (String) extras.get(name); }
    public int getIntExtra(String name, int defaultValue) {
        Object value = extras.get(name);
        return value instanceof Integer ? (Integer) value : defaultValue;
    }
    public boolean getBooleanExtra(String name, boolean defaultValue) {
        Object value = extras.get(name);
        return value instanceof Boolean ? (Boolean) value : defaultValue;
    }
}
