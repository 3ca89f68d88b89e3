package android.view;

import android.content.Context;

public abstract class Window {
    public Window(Context context) {}
    public void addFlags(int flags) { setFlags(flags, flags); }
    public void clearFlags(int flags) { setFlags(0, flags); }
    public void setFlags(int flags, int mask) { this.flags = this.flags & ~mask | flags & mask; }
    int flags;
}
