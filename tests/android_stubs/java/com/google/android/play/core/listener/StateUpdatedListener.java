package com.google.android.play.core.listener;

import org.jetbrains.annotations.NotNull;

public interface StateUpdatedListener<StateT> {
    void onStateUpdate(@NotNull StateT state);
}
