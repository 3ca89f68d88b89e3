package com.google.android.play.core.assetpacks;

import android.app.Activity;
import androidx.activity.result.ActivityResultLauncher;
import androidx.activity.result.IntentSenderRequest;
import com.google.android.gms.tasks.Task;
import java.util.List;
import java.util.Map;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public interface AssetPackManager {
    AssetPackStates cancel(@NotNull List<String> packNames);
    void clearListeners();
    Task<AssetPackStates> fetch(List<String> packNames);
    @Nullable AssetLocation getAssetLocation(@NotNull String packName, @NotNull String assetPath);
    @Nullable AssetPackLocation getPackLocation(@NotNull String packName);
    Map<String, AssetPackLocation> getPackLocations();
    Task<AssetPackStates> getPackStates(List<String> packNames);
    void registerListener(@NotNull AssetPackStateUpdateListener listener);
    Task<Void> removePack(@NotNull String packName);
    @Deprecated boolean showCellularDataConfirmation(
            @NotNull ActivityResultLauncher<IntentSenderRequest> activityResultLauncher);
    @Deprecated Task<Integer> showCellularDataConfirmation(@NotNull Activity activity);
    boolean showConfirmationDialog(@NotNull ActivityResultLauncher<IntentSenderRequest> activityResultLauncher);
    Task<Integer> showConfirmationDialog(@NotNull Activity activity);
    void unregisterListener(@NotNull AssetPackStateUpdateListener listener);
}
