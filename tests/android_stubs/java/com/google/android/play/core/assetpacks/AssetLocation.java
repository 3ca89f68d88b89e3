package com.google.android.play.core.assetpacks;

public abstract class AssetLocation {
    public AssetLocation() {}
    public abstract long offset();
    public abstract String path();
    public abstract long size();
}
