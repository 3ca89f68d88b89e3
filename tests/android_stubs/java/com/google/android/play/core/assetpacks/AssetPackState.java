package com.google.android.play.core.assetpacks;

public abstract class AssetPackState {
    public AssetPackState() {}
    public abstract long bytesDownloaded();
    public abstract int errorCode();
    public abstract String name();
    public abstract int status();
    public abstract long totalBytesToDownload();
    public abstract int transferProgressPercentage();
}
