package @@{package}

import android.text.Editable
import android.text.TextWatcher

/** Tells what a field says, after each change. */
internal class Typed(private val onTyped: (String) -> Unit) : TextWatcher {
    override fun beforeTextChanged(s: CharSequence, start: Int, count: Int, after: Int) = Unit

    override fun onTextChanged(s: CharSequence, start: Int, before: Int, count: Int) = Unit

    override fun afterTextChanged(s: Editable) = onTyped(s.toString())
}
