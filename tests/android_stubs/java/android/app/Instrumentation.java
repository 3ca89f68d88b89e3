package android.app;

import android.content.Context;

public class Instrumentation {
    public Instrumentation() {}
    public Context getTargetContext() { throw new RuntimeException("Stub!"); }
}
