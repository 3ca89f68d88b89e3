package com.google.android.play.core.aipacks;

import androidx.activity.result.ActivityResultLauncher;
import androidx.activity.result.IntentSenderRequest;
import com.google.android.gms.tasks.Task;
import java.util.List;
import java.util.Map;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public interface AiPackManager {
    AiPackStates cancel(@NotNull List<String> packNames);
    void clearListeners();
    Task<AiPackStates> fetch(List<String> packNames);
    @Nullable AiAssetLocation getAiAssetLocation(@NotNull String packName, @NotNull String assetPath);
    @Nullable AiPackLocation getPackLocation(@NotNull String packName);
    Map<String, AiPackLocation> getPackLocations();
    Task<AiPackStates> getPackStates(List<String> packNames);
    void registerListener(@NotNull AiPackStateUpdateListener listener);
    Task<Void> removePack(@NotNull String packName);
    boolean showConfirmationDialog(@NotNull ActivityResultLauncher<IntentSenderRequest> activityResultLauncher);
    void unregisterListener(@NotNull AiPackStateUpdateListener listener);
}
