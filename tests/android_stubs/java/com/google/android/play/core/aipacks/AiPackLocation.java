package com.google.android.play.core.aipacks;

import org.jetbrains.annotations.Nullable;

public abstract class AiPackLocation {
    public AiPackLocation() {}
    @Nullable public abstract String assetsPath();
    @Nullable public abstract String path();
    public abstract int packStorageMethod();
}
