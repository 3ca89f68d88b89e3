package android.view;

import android.content.Context;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/** No part of Android: what makes the views of a layout, by its number. */
public final class StandInLayouts {
    private static final Map<Integer, Function<Context, View>> MADE = new ConcurrentHashMap<>();

    private StandInLayouts() {}

    public static void put(int layout, Function<Context, View> made) {
        MADE.put(layout, made);
    }

    public static View inflated(int layout, Context context) {
        return MADE.get(layout).apply(context);
    }
}
