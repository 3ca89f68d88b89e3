package @@{package}

import android.os.Build
import android.widget.SeekBar

/** Tells where a finger moves a slider to. */
internal class Slid(private val onSlid: (Int) -> Unit) : SeekBar.OnSeekBarChangeListener {
    override fun onProgressChanged(seekBar: SeekBar, progress: Int, fromUser: Boolean) {
        if (fromUser) onSlid(progress)
    }

    override fun onStartTrackingTouch(seekBar: SeekBar) = Unit

    override fun onStopTrackingTouch(seekBar: SeekBar) = Unit
}

/** Shows a slider's place; what is read aloud would else be that place, as a percentage. */
internal fun SeekBar.show(place: Int, most: Int, said: String) {
    max = most
    progress = place
    if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.R) stateDescription = said
}
