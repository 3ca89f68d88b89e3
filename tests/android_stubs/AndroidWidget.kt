/** Stubs of android.widget. */
@file:Suppress("unused", "UNUSED_PARAMETER")

package android.widget

import android.graphics.Bitmap
import android.view.View

open class TextView : View() {
    open var text: CharSequence = ""
}

open class EditText : TextView()

open class Button : TextView()

open class ImageView : View() {
    fun setImageBitmap(bitmap: Bitmap) = Unit
}

open class ProgressBar : View() {
    var max: Int = 100
    var progress: Int = 0
}
