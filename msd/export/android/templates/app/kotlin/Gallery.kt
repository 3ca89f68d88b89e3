package @@{package}

import android.content.ContentResolver
import android.content.ContentValues
import android.content.Context
import android.graphics.Bitmap
import android.net.Uri
import android.os.Build
import android.os.Environment
import android.provider.MediaStore
import dev.msd.runtime.GeneratedImage
import java.io.IOException

/** The images of the phone's gallery, from Android 10 on: older ones would ask for a permission to write. */
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

        /** A PNG loses nothing, whatever the quality. */
        private const val BEST = 100

        /** Returns the bitmap of an image. */
        fun bitmap(image: GeneratedImage): Bitmap =
            Bitmap.createBitmap(image.argb, image.width, image.height, Bitmap.Config.ARGB_8888)
    }
}
