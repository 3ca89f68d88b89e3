package com.google.android.play.core.aipacks.model;

public @interface AiPackStorageMethod {
    int STORAGE_FILES = 0;
    int APK_ASSETS = 1;
}
