package android.content.res;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public final class AssetManager implements AutoCloseable {
    private final File folder;
    AssetManager(File folder) { this.folder = folder; }
    @NotNull public InputStream open(@NotNull String fileName) throws IOException {
        return new FileInputStream(new File(folder, fileName));
    }
    @NotNull public AssetFileDescriptor openFd(@NotNull String fileName) throws IOException {
        throw new RuntimeException("Stub!");
    }
    @Nullable public String[] list(@NotNull String path) throws IOException { return new File(folder, path).list(); }
    public void close() {}
}
