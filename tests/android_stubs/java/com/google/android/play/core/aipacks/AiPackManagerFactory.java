package com.google.android.play.core.aipacks;

import android.content.Context;
import org.jetbrains.annotations.NotNull;

public final class AiPackManagerFactory {
    private AiPackManagerFactory() {}
    static AiPackManager standIn;
    @NotNull public static AiPackManager getInstance(Context applicationContext) {
        if (standIn == null) throw new IllegalStateException("no store for " + applicationContext);
        return standIn;
    }
}
