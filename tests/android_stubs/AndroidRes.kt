/** Stubs of android.content.res. */
package android.content.res

import java.io.File
import java.io.InputStream

class Configuration

/** Assets are files of [folder], which a test fills. */
class AssetManager(private val folder: File) {
    fun open(fileName: String): InputStream = File(folder, fileName).inputStream()
}
