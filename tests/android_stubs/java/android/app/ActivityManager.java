package android.app;

import android.os.Parcelable;

public class ActivityManager {
    long totalMemory;
    long freeMemory;
    ActivityManager() {}
    public boolean isLowRamDevice() { return false; }
    public int getMemoryClass() { throw new RuntimeException("Stub!"); }
    public int getLargeMemoryClass() { throw new RuntimeException("Stub!"); }
    public void getMemoryInfo(MemoryInfo outInfo) {
        outInfo.totalMem = totalMemory;
        outInfo.availMem = freeMemory;
    }

    public static class MemoryInfo implements Parcelable {
        public long availMem;
        public long totalMem;
        public long threshold;
        public boolean lowMemory;
        public MemoryInfo() {}
    }
}
