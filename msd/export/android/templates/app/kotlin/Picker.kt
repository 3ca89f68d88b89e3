package @@{package}

import android.app.Activity
import android.content.ActivityNotFoundException
import android.content.Intent
import android.graphics.Bitmap
import android.os.Build
import android.provider.MediaStore
import android.widget.ImageView
import dev.msd.runtime.Manifest

/** Whether photos can be chosen: before Android 9, its decoder leaves them lying on their side. */
internal val canChoosePhotos: Boolean get() = Build.VERSION.SDK_INT >= Build.VERSION_CODES.P

/**
 * Lets the user choose a photo with the system's picker, which shows the app nothing else and needs no permission; the
 * answer is that to [question]. Returns what is wrong where there is no picker.
 */
internal fun Activity.askForPhoto(question: Int): Chosen.Unusable? {
    val picker =
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.TIRAMISU) Intent(MediaStore.ACTION_PICK_IMAGES)
        else Intent(Intent.ACTION_OPEN_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE)
    return try {
        startActivityForResult(picker.setType("image/*"), question)
        null
    } catch (problem: ActivityNotFoundException) {
        Chosen.Unusable(problem)
    }
}

/** A photo on the screen, of which a bitmap is made only where it is another than before. */
internal class ShownPhoto(private val view: ImageView) {
    private var shown: IntArray? = null

    /** Shows the pixels of a photo of the model's size, or nothing. */
    fun show(photo: IntArray?, manifest: Manifest?) {
        if (photo === shown) return
        shown = photo
        val bitmap = if (photo == null || manifest == null) null
        else Bitmap.createBitmap(photo, manifest.width, manifest.height, Bitmap.Config.ARGB_8888)
        view.setImageBitmap(bitmap)
    }
}
