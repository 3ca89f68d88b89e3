/** A stub of android.view.View. */
@file:Suppress("unused", "UNUSED_PARAMETER")

package android.view

open class View {
    var isEnabled: Boolean = true

    fun interface OnClickListener {
        fun onClick(view: View)
    }

    fun setOnClickListener(listener: OnClickListener?) = Unit
}
