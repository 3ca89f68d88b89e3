package com.google.android.play.core.assetpacks;

public class AssetPackException extends RuntimeException {
}
