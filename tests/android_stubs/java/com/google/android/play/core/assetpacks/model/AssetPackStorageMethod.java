package com.google.android.play.core.assetpacks.model;

public @interface AssetPackStorageMethod {
    int STORAGE_FILES = 0;
    int APK_ASSETS = 1;
}
