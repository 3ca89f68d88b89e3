package com.google.android.play.core.assetpacks;

/** No part of Play: the store that a test plays, or null for a device without one. */
public final class StandInStore {
    private StandInStore() {}

    public static void play(AssetPackManager manager) {
        AssetPackManagerFactory.standIn = manager;
    }

    /** Returns what Play's tasks fail with. */
    public static AssetPackException exception(int errorCode) {
        return new AssetPackException(errorCode);
    }
}
