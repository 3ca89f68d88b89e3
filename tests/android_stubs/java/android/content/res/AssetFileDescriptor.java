package android.content.res;

import android.os.Parcelable;
import java.io.Closeable;
import java.io.FileInputStream;
import java.io.IOException;

public class AssetFileDescriptor implements Parcelable, Closeable {
    public long getLength() { throw new RuntimeException("Stub!"); }
    public FileInputStream createInputStream() throws IOException { throw new RuntimeException("Stub!"); }
    public void close() throws IOException { throw new RuntimeException("Stub!"); }
}
