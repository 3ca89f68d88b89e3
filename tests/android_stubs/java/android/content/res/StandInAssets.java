package android.content.res;

import java.io.File;

/** No part of Android: assets that are files of a folder, which a test fills. */
public final class StandInAssets {
    private StandInAssets() {}

    public static AssetManager of(File folder) {
        return new AssetManager(folder);
    }
}
