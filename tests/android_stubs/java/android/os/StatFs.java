package android.os;

import java.io.File;

public class StatFs {
    private final File path;
    public StatFs(String path) {
        this.path = new File(path);
        if (!this.path.exists()) throw new IllegalArgumentException("Invalid path: " + path);
    }
    public long getAvailableBytes() { return path.getUsableSpace(); }
    public long getTotalBytes() { return path.getTotalSpace(); }
}
