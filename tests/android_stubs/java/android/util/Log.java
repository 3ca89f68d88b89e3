package android.util;

import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public final class Log {
    public static int d(@Nullable String tag, @NotNull String msg) { return 0; }
    public static int i(@Nullable String tag, @NotNull String msg) { return 0; }
    public static int w(@Nullable String tag, @NotNull String msg) { return 0; }
    public static int w(@Nullable String tag, @Nullable String msg, @Nullable Throwable tr) { return 0; }
    public static int e(@Nullable String tag, @NotNull String msg) { return 0; }
    public static int e(@Nullable String tag, @Nullable String msg, @Nullable Throwable tr) { return 0; }
}
