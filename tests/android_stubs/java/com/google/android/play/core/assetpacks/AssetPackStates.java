package com.google.android.play.core.assetpacks;

import java.util.Map;

public abstract class AssetPackStates {
    public AssetPackStates() {}
    public abstract Map<String, AssetPackState> packStates();
    public abstract long totalBytes();
}
