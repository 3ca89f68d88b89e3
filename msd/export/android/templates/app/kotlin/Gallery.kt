package @@{package}

import android.Manifest.permission
import android.content.ContentResolver
import android.content.ContentValues
import android.content.Context
import android.content.pm.PackageManager
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
import java.io.File
import java.io.IOException

/** The images of the phone's gallery. */
internal class Gallery(private val context: Context) {
    private val resolver: ContentResolver get() = context.contentResolver

    /**
     * Returns the address of a new PNG in the folder Pictures, which has the app's name.
     *
     * Throws IOException, and before Android 10 SecurityException without [PERMISSION].
     */
    fun save(image: GeneratedImage, name: String): Uri {
        if (!isOpen(context)) throw SecurityException("the app has no $PERMISSION")
        val address = inserted(name) ?: throw IOException("the gallery takes no image")
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
     * The decoder makes a large photo smaller, but no less than twice as large as the model's images.
     */
    fun read(address: Uri, manifest: Manifest): IntArray {
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.P) throw IOException("Android 8 decodes no image upright")
        val bitmap = ImageDecoder.decodeBitmap(ImageDecoder.createSource(resolver, address)) { decoder, info, _ ->
            decoder.allocator = ImageDecoder.ALLOCATOR_SOFTWARE
            decoder.setTargetSampleSize(sampling(info.size, manifest))
        }
        try {
            return manifest.fitted(bitmap.rows())
        } finally {
            bitmap.recycle()
        }
    }

    /** Returns the largest number of which every such row and column leaves enough for [fitted]. */
    private fun sampling(size: Size, manifest: Manifest): Int {
        val across = size.width / (ENOUGH * manifest.width)
        val down = size.height / (ENOUGH * manifest.height)
        return maxOf(1, minOf(across, down))
    }

    private fun inserted(name: String): Uri? {
        val values = ContentValues().apply {
            put(MediaStore.MediaColumns.DISPLAY_NAME, "$name.png")
            put(MediaStore.MediaColumns.MIME_TYPE, PNG)
        }
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.Q) {
            values.put(MediaStore.MediaColumns.DATA, unused(name).path)
            return resolver.insert(MediaStore.Images.Media.EXTERNAL_CONTENT_URI, values)
        }
        values.put(MediaStore.MediaColumns.RELATIVE_PATH, Environment.DIRECTORY_PICTURES + "/" + folder())
        values.put(MediaStore.MediaColumns.IS_PENDING, 1)
        return resolver.insert(MediaStore.Images.Media.getContentUri(MediaStore.VOLUME_EXTERNAL_PRIMARY), values)
    }

    /** Returns a path in the folder Pictures that no file has yet; newer phones choose one themselves. */
    private fun unused(name: String): File {
        val pictures = Environment.getExternalStoragePublicDirectory(Environment.DIRECTORY_PICTURES)
        val folder = File(pictures, folder()).apply { mkdirs() }
        val names = sequenceOf(name) + generateSequence(1) { it + 1 }.map { "$name ($it)" }
        return names.map { File(folder, "$it.png") }.first { !it.exists() }
    }

    private fun folder() = context.getString(R.string.app_name).replace('/', ' ')

    /** Writes the image, and lets other apps see it when it is whole. */
    private fun write(image: GeneratedImage, address: Uri) {
        val stream = resolver.openOutputStream(address) ?: throw IOException("the gallery opens no file")
        val written = stream.use { bitmap(image).compress(Bitmap.CompressFormat.PNG, BEST, it) }
        if (!written) throw IOException("the image cannot be written as a PNG")
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.Q) return
        resolver.update(address, ContentValues().apply { put(MediaStore.MediaColumns.IS_PENDING, 0) }, null, null)
    }

    companion object {
        /** What the gallery's images are. */
        const val PNG: String = "image/png"

        /** Without it, an app saves nothing before Android 10; newer phones ask for none. */
        const val PERMISSION: String = permission.WRITE_EXTERNAL_STORAGE

        /** A photo keeps so many times the model's rows and columns, for Lanczos to choose from. */
        private const val ENOUGH = 2

        /** A PNG loses nothing, whatever the quality. */
        private const val BEST = 100

        /** Returns whether the app may save now. */
        fun isOpen(context: Context): Boolean = Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q ||
            context.checkSelfPermission(PERMISSION) == PackageManager.PERMISSION_GRANTED

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
