package com.google.android.play.core.assetpacks;

import org.jetbrains.annotations.Nullable;

public abstract class AssetPackLocation {
    public AssetPackLocation() {}
    @Nullable public abstract String assetsPath();
    @Nullable public abstract String path();
    public abstract int packStorageMethod();
}
