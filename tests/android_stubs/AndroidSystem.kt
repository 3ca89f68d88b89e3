/** A stub of android.system.Os that makes real links. */
package android.system

import java.nio.file.Files
import java.nio.file.Path

object Os {
    @JvmStatic
    fun symlink(oldPath: String, newPath: String) {
        Files.createSymbolicLink(Path.of(newPath), Path.of(oldPath))
    }
}
