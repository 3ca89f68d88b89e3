package android.view;

import android.graphics.Insets;
import org.jetbrains.annotations.NotNull;

public final class WindowInsets {
    @NotNull public static final WindowInsets CONSUMED = new WindowInsets();
    private WindowInsets() {}
    @NotNull public Insets getInsets(int typeMask) { throw new RuntimeException("Stub!"); }

    public static final class Type {
        private Type() {}
        public static int systemBars() { throw new RuntimeException("Stub!"); }
        public static int displayCutout() { throw new RuntimeException("Stub!"); }
        public static int ime() { throw new RuntimeException("Stub!"); }
    }
}
