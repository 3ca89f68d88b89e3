package android.view.inputmethod;

import android.os.IBinder;

public final class InputMethodManager {
    InputMethodManager() {}
    public boolean hideSoftInputFromWindow(IBinder windowToken, int flags) { return true; }
}
