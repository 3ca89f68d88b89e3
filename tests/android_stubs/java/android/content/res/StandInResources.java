package android.content.res;

import java.util.Map;
import org.jetbrains.annotations.NotNull;

/** No part of Android: resources with the strings that a test has, or strings that are their numbers. */
public final class StandInResources extends Resources {
    private final Map<Integer, String> strings;

    public StandInResources() { this(Map.of()); }

    public StandInResources(Map<Integer, String> strings) {
        super(null);
        this.strings = strings;
    }

    @Override @NotNull public String getString(int id) { return strings.getOrDefault(id, "string " + id); }

    @Override @NotNull public String getString(int id, Object... formatArgs) {
        return String.format(getString(id), formatArgs);
    }
}
