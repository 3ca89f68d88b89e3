package com.google.android.play.core.aipacks;

import androidx.activity.result.ActivityResultLauncher;
import androidx.activity.result.IntentSenderRequest;
import com.google.android.gms.tasks.Task;
import java.util.List;
import java.util.Map;

public interface AiPackManager {
    AiPackStates cancel(List<String> packNames);
    void clearListeners();
    Task<AiPackStates> fetch(List<String> packNames);
    AiAssetLocation getAiAssetLocation(String packName, String assetPath);
    AiPackLocation getPackLocation(String packName);
    Map<String, AiPackLocation> getPackLocations();
    Task<AiPackStates> getPackStates(List<String> packNames);
    void registerListener(AiPackStateUpdateListener listener);
    Task<Void> removePack(String packName);
    boolean showConfirmationDialog(ActivityResultLauncher<IntentSenderRequest> activityResultLauncher);
    void unregisterListener(AiPackStateUpdateListener listener);
}
