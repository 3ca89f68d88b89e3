package com.google.android.play.core.assetpacks;

import android.content.Context;
import org.jetbrains.annotations.NotNull;

public final class AssetPackManagerFactory {
    private AssetPackManagerFactory() {}
    static AssetPackManager standIn;
    @NotNull public static AssetPackManager getInstance(Context applicationContext) {
        if (standIn == null) throw new IllegalStateException("no store for " + applicationContext);
        return standIn;
    }
}
