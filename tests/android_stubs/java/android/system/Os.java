package android.system;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;

public final class Os {
    public static void symlink(String oldPath, String newPath) throws ErrnoException {
        try { Files.createSymbolicLink(Paths.get(newPath), Paths.get(oldPath)); }
        catch (IOException problem) { throw new ErrnoException("symlink", 17, problem); }
    }
}
