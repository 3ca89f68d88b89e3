package @@{package}

import android.app.Activity
import android.content.Intent
import android.view.View
import android.widget.AdapterView
import android.widget.SeekBar
import android.widget.Spinner
import android.widget.TextView
import dev.msd.runtime.InitialImage
import kotlin.math.abs
import kotlin.math.roundToInt

/**
 * The part of the screen that chooses a photo to begin from, and how much of it changes.
 *
 * It is hidden where the model begins from no image, or needs a mask, and where no photo can be chosen.
 */
internal class PhotoSettings(private val activity: Activity, private val studio: Studio) {
    private var state = State()
    private val shown = ShownPhoto(view(R.id.photo))

    init {
        view<View>(R.id.pick_photo).setOnClickListener { pick() }
        view<View>(R.id.remove_photo).setOnClickListener { studio.choose(null) }
        view<SeekBar>(R.id.strength).setOnSeekBarChangeListener(Slid(::slide))
        view<Spinner>(R.id.steps).setOnItemSelectedListener(Selected())
    }

    /** Shows what a state says of the photo. */
    fun show(state: State) {
        this.state = state
        val facts = state.manifest?.image
        visible(R.id.photo_settings, canChoosePhotos && facts != null && !facts.inpaints)
        val said = Sentences(activity).of(state.photo)
        view<TextView>(R.id.photo_status).text = said
        visible(R.id.photo_status, said != "")
        val photo = (state.photo as? Chosen.Ready)?.argb
        visible(R.id.chosen_photo, photo != null)
        shown.show(photo, state.manifest)
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

    private fun pick() {
        activity.askForPhoto(PHOTO)?.let(studio::choose)
    }

    private fun slide(place: Int) {
        val steps = view<Spinner>(R.id.steps).selectedItem as? Int
        strengths(steps).getOrNull(place)?.let(studio::change)
    }

    /** Offers the strengths that there are for the chosen number of steps, and says which one holds. */
    private fun offer() {
        val steps = view<Spinner>(R.id.steps).selectedItem as? Int
        val strength = strength(steps) ?: return
        val percent = activity.getString(R.string.percent, (100 * strength).roundToInt())
        view<TextView>(R.id.strength_label).text = activity.getString(R.string.strength, percent)
        val known = strengths(steps)
        view<SeekBar>(R.id.strength).show(known.indexOf(strength), known.lastIndex, percent)
    }

    /** Returns the strength nearest to the wanted one that there is a schedule for. */
    private fun strength(steps: Int?): Double? = strengths(steps).minByOrNull { abs(it - state.strength) }

    private fun strengths(steps: Int?): List<Double> =
        state.manifest?.image?.schedules?.get(steps)?.keys.orEmpty().sorted()

    private fun visible(id: Int, visible: Boolean) {
        view<View>(id).visibility = if (visible) View.VISIBLE else View.GONE
    }

    private fun <T : View> view(id: Int): T = activity.findViewById(id)

    private inner class Selected : AdapterView.OnItemSelectedListener {
        override fun onItemSelected(parent: AdapterView<*>, view: View?, position: Int, id: Long) = offer()

        override fun onNothingSelected(parent: AdapterView<*>) = Unit
    }

    private companion object {
        /** The question that the picker answers. */
        const val PHOTO = 1
    }
}
