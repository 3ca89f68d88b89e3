package android.view;

import android.os.Parcelable;

public interface WindowManager extends ViewManager {

    static class LayoutParams extends ViewGroup.LayoutParams implements Parcelable {
        public static final int FLAG_KEEP_SCREEN_ON = 0x00000080;
        public LayoutParams() { super(-1, -1); }
    }
}
