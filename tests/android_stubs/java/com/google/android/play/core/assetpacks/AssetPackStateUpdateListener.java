package com.google.android.play.core.assetpacks;

import com.google.android.play.core.listener.StateUpdatedListener;

public interface AssetPackStateUpdateListener extends StateUpdatedListener<AssetPackState> {
}
