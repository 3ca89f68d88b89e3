package @@{package}

import android.app.Activity
import android.content.ActivityNotFoundException
import android.content.Intent
import android.graphics.Bitmap
import android.os.Build
import android.provider.MediaStore
import android.view.View
import android.widget.AdapterView
import android.widget.ImageView
import android.widget.SeekBar
import android.widget.Spinner
import android.widget.TextView
import dev.msd.runtime.InitialImage
import kotlin.math.abs
import kotlin.math.roundToInt

/**
 * The part of the screen that chooses a photo to begin from, and how much of it changes.
 *
 * It is hidden where the model begins from no image, or needs a mask, and before Android 9, whose decoder leaves photos
 * lying on their side.
 */
internal class PhotoSettings(private val activity: Activity, private val studio: Studio) {
    private var state = State()
    private var shown: IntArray? = null

    init {
        view<View>(R.id.pick_photo).setOnClickListener { pick() }
        view<View>(R.id.remove_photo).setOnClickListener { studio.choose(null) }
        view<SeekBar>(R.id.strength).setOnSeekBarChangeListener(Slid())
        view<Spinner>(R.id.steps).setOnItemSelectedListener(Selected())
    }

    /** Shows what a state says of the photo. */
    fun show(state: State) {
        this.state = state
        val facts = state.manifest?.image
        val possible = Build.VERSION.SDK_INT >= Build.VERSION_CODES.P && facts != null && !facts.inpaints
        visible(R.id.photo_settings, possible)
        val said = Sentences(activity).of(state.photo)
        view<TextView>(R.id.photo_status).text = said
        visible(R.id.photo_status, said != "")
        show((state.photo as? Chosen.Ready)?.argb)
        offer()
    }

    /** Returns what an image of so many steps begins from; null without a photo. */
    fun image(steps: Int?): InitialImage? {
        val photo = state.photo as? Chosen.Ready ?: return null
        return InitialImage(photo.argb, strength(steps) ?: state.strength)
    }

    /** Takes the photo that was chosen, if this is the answer to that question. */
    fun onResult(question: Int, answer: Intent?) {
        if (question == PHOTO) answer?.data?.let(studio::choose)
    }

    /** Lets the user choose with the system's picker, which shows the app nothing else and needs no permission. */
    private fun pick() {
        val picker =
            if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.TIRAMISU) Intent(MediaStore.ACTION_PICK_IMAGES)
            else Intent(Intent.ACTION_OPEN_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE)
        try {
            activity.startActivityForResult(picker.setType("image/*"), PHOTO)
        } catch (problem: ActivityNotFoundException) {
            studio.choose(Chosen.Unusable(problem))
        }
    }

    /** Shows a photo, and makes a bitmap of it only where it is another than before. */
    private fun show(photo: IntArray?) {
        visible(R.id.chosen_photo, photo != null)
        if (photo === shown) return
        shown = photo
        val manifest = state.manifest
        val bitmap = if (photo == null || manifest == null) null
        else Bitmap.createBitmap(photo, manifest.width, manifest.height, Bitmap.Config.ARGB_8888)
        view<ImageView>(R.id.photo).setImageBitmap(bitmap)
    }

    /** Offers the strengths that there are for the chosen number of steps, and says which one holds. */
    private fun offer() {
        val steps = view<Spinner>(R.id.steps).selectedItem as? Int
        val strength = strength(steps) ?: return
        val percent = activity.getString(R.string.percent, (100 * strength).roundToInt())
        view<TextView>(R.id.strength_label).text = activity.getString(R.string.strength, percent)
        view<SeekBar>(R.id.strength).apply {
            max = strengths(steps).lastIndex
            progress = strengths(steps).indexOf(strength)
            // What is read aloud would be the place among the strengths, as a percentage.
            if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.R) stateDescription = percent
        }
    }

    /** Returns the strength nearest to the wanted one that there is a schedule for. */
    private fun strength(steps: Int?): Double? = strengths(steps).minByOrNull { abs(it - state.strength) }

    private fun strengths(steps: Int?): List<Double> =
        state.manifest?.image?.schedules?.get(steps)?.keys.orEmpty().sorted()

    private fun visible(id: Int, visible: Boolean) {
        view<View>(id).visibility = if (visible) View.VISIBLE else View.GONE
    }

    private fun <T : View> view(id: Int): T = activity.findViewById(id)

    private inner class Slid : SeekBar.OnSeekBarChangeListener {
        override fun onProgressChanged(seekBar: SeekBar, progress: Int, fromUser: Boolean) {
            val steps = view<Spinner>(R.id.steps).selectedItem as? Int
            if (fromUser) strengths(steps).getOrNull(progress)?.let(studio::change)
        }

        override fun onStartTrackingTouch(seekBar: SeekBar) = Unit

        override fun onStopTrackingTouch(seekBar: SeekBar) = Unit
    }

    private inner class Selected : AdapterView.OnItemSelectedListener {
        override fun onItemSelected(parent: AdapterView<*>, view: View?, position: Int, id: Long) = offer()

        override fun onNothingSelected(parent: AdapterView<*>) = Unit
    }

    private companion object {
        /** The question that the picker answers. */
        const val PHOTO = 1
    }
}
