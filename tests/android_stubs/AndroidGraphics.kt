/** A stub of android.graphics.Bitmap. */
@file:Suppress("unused", "UNUSED_PARAMETER")

package android.graphics

class Bitmap {
    enum class Config { ARGB_8888 }

    companion object {
        @JvmStatic
        fun createBitmap(colors: IntArray, width: Int, height: Int, config: Config): Bitmap = Bitmap()
    }
}
