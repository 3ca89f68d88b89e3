package android.content.res;

import org.jetbrains.annotations.NotNull;

public class Resources {
    Resources(Object standIn) {}
    @NotNull public CharSequence getText(int id) throws NotFoundException { throw new RuntimeException("Stub!"); }
    @NotNull public String getString(int id) throws NotFoundException { throw new RuntimeException("Stub!"); }
    @NotNull public String getString(int id, Object... formatArgs) throws NotFoundException {
        throw new RuntimeException("Stub!");
    }
    @NotNull public String getQuantityString(int id, int quantity, Object... formatArgs) throws NotFoundException {
        throw new RuntimeException("Stub!");
    }
    public Configuration getConfiguration() { throw new RuntimeException("Stub!"); }

    public static class NotFoundException extends RuntimeException {
        public NotFoundException() {}
    }
}
