package android.app;

import android.content.Context;
import android.view.Window;

final class StandInWindow extends Window {
    StandInWindow(Context context) { super(context); }
}
