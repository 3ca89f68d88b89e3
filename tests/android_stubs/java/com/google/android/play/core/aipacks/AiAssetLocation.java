package com.google.android.play.core.aipacks;

public abstract class AiAssetLocation {
    public AiAssetLocation() {}
    public abstract long offset();
    public abstract String path();
    public abstract long size();
}
