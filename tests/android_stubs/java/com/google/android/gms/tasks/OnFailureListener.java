package com.google.android.gms.tasks;

import org.jetbrains.annotations.NotNull;

public interface OnFailureListener {
    void onFailure(@NotNull Exception e);
}
