package @@{package}

import android.content.ContentResolver
import android.content.ContentValues
import android.content.Context
import android.graphics.Bitmap
import android.graphics.ImageDecoder
import android.net.Uri
import android.os.Build
import android.os.Environment
import android.provider.MediaStore
import android.util.Size
import dev.msd.runtime.GeneratedImage
import dev.msd.runtime.Manifest
import dev.msd.runtime.Photo
import dev.msd.runtime.fitted
import java.io.IOException
import kotlin.math.ceil
import kotlin.math.sqrt

/** The images of the phone's gallery; saving needs Android 10, before which a permission would be asked for. */
internal class Gallery(private val context: Context) {
    private val resolver: ContentResolver get() = context.contentResolver

    /** Returns the address of a new PNG in the folder Pictures, which has the app's name; throws IOException. */
    fun save(image: GeneratedImage, name: String): Uri {
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.Q) throw IOException(context.getString(R.string.saving_needs))
        val images = MediaStore.Images.Media.getContentUri(MediaStore.VOLUME_EXTERNAL_PRIMARY)
        val values = ContentValues().apply {
            put(MediaStore.MediaColumns.DISPLAY_NAME, "$name.png")
            put(MediaStore.MediaColumns.MIME_TYPE, PNG)
            put(MediaStore.MediaColumns.RELATIVE_PATH, Environment.DIRECTORY_PICTURES + "/" + folder())
            put(MediaStore.MediaColumns.IS_PENDING, 1)
        }
        val address = resolver.insert(images, values) ?: throw IOException(context.getString(R.string.no_gallery))
        var whole = false
        try {
            write(image, address)
            whole = true
        } finally {
            if (!whole) resolver.delete(address, null, null)
        }
        return address
    }

    /**
     * Returns a photo, upright, at the model's size; from Android 9 on. Throws IOException where it is none, and
     * SecurityException where the user's choice no longer lets the app read it.
     *
     * Of one with more than 50 million pixels, every second or third in a row and column is read.
     */
    fun read(address: Uri, manifest: Manifest): IntArray {
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.P) throw IOException("Android 8 decodes no image upright")
        val bitmap = ImageDecoder.decodeBitmap(ImageDecoder.createSource(resolver, address)) { decoder, info, _ ->
            decoder.allocator = ImageDecoder.ALLOCATOR_SOFTWARE
            decoder.setTargetSampleSize(sampling(info.size))
        }
        try {
            return manifest.fitted(bitmap.rows())
        } finally {
            bitmap.recycle()
        }
    }

    private fun sampling(size: Size): Int {
        val pixels = size.width.toDouble() * size.height
        return maxOf(1, ceil(sqrt(pixels / MOST_PIXELS)).toInt())
    }

    private fun folder() = context.getString(R.string.app_name).replace('/', ' ')

    /** Writes the image, and lets other apps see it when it is whole. */
    private fun write(image: GeneratedImage, address: Uri) {
        val stream = resolver.openOutputStream(address) ?: throw IOException(context.getString(R.string.no_gallery))
        val written = stream.use { bitmap(image).compress(Bitmap.CompressFormat.PNG, BEST, it) }
        if (!written) throw IOException(context.getString(R.string.no_png))
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.Q) return
        resolver.update(address, ContentValues().apply { put(MediaStore.MediaColumns.IS_PENDING, 0) }, null, null)
    }

    companion object {
        /** What the gallery's images are. */
        const val PNG: String = "image/png"

        /** A photo's bitmap has four bytes for each of these. */
        private const val MOST_PIXELS = 50_000_000

        /** A PNG loses nothing, whatever the quality. */
        private const val BEST = 100

        /** Returns the bitmap of an image. */
        fun bitmap(image: GeneratedImage): Bitmap =
            Bitmap.createBitmap(image.argb, image.width, image.height, Bitmap.Config.ARGB_8888)
    }
}

private fun Bitmap.rows() = object : Photo {
    override val width = this@rows.width
    override val height = this@rows.height

    override fun row(y: Int, left: Int, into: IntArray): Unit = getPixels(into, 0, into.size, left, y, into.size, 1)
}
