package @@{package}

import android.app.Activity
import android.content.Intent
import android.view.View
import android.view.ViewGroup
import android.widget.Button
import android.widget.CheckBox
import android.widget.CompoundButton
import android.widget.EditText
import android.widget.SeekBar
import android.widget.TextView
import dev.msd.runtime.Control
import dev.msd.runtime.Manifest
import dev.msd.runtime.controls
import kotlin.math.roundToInt

/**
 * The part of the screen that chooses the pictures by which the model's ControlNets steer.
 *
 * It is hidden where the model has none, and where no photo can be chosen.
 */
internal class ControlSettings(private val activity: Activity, private val studio: Studio) {
    private var state = State()
    private var views = emptyList<ControlView>()

    /** Shows what a state says of the pictures. */
    fun show(state: State) {
        this.state = state
        val manifest = state.manifest ?: return
        if (views.isEmpty()) views = manifest.controls.mapIndexed(::made)
        visible(R.id.control_settings, views.isNotEmpty() && canChoosePhotos)
        views.forEachIndexed { i, view -> view.show(state.steered(i), manifest) }
        visible(R.id.guess, chosen().isNotEmpty())
    }

    /** Returns the pictures that have been chosen. */
    fun chosen(): List<Control> = state.manifest?.controls.orEmpty().mapIndexedNotNull { i, name ->
        val steered = state.steered(i)
        steered.picture?.let { Control(name, it, steered.scale ?: 1.0, steered.begin, steered.until) }
    }

    /** Returns whether the scales that were typed are some. */
    fun scalesAreRight(): Boolean = views.filterIndexed { i, view -> !view.isRight(state.steered(i)) }.isEmpty()

    /** Returns whether they steer although the prompt does not describe them. */
    fun guess(): Boolean = chosen().isNotEmpty() && activity.findViewById<CheckBox>(R.id.guess).isChecked

    /** Takes the picture that was chosen, if this is the answer to that question. */
    fun onResult(question: Int, answer: Intent?) {
        if (question >= FIRST) answer?.data?.let { studio.choose(it, question - FIRST) }
    }

    private fun made(index: Int, name: String): ControlView {
        val list = activity.findViewById<ViewGroup>(R.id.controls)
        View.inflate(activity, R.layout.control, list)
        return ControlView(list.getChildAt(list.childCount - 1), name, Wishes(index))
    }

    private fun visible(id: Int, visible: Boolean) {
        activity.findViewById<View>(id).visibility = if (visible) View.VISIBLE else View.GONE
    }

    /** What the user wishes of one picture. */
    inner class Wishes(private val index: Int) {
        fun pick() {
            activity.askForPhoto(FIRST + index)?.let { studio.choose(it, index) }
        }

        fun remove(): Unit = studio.choose(null, index)

        fun change(how: (Steered) -> Steered): Unit = studio.change(index, how(state.steered(index)))
    }

    private companion object {
        /** The question that the picker answers with the picture for the first ControlNet; others follow. */
        const val FIRST = 100
    }
}

/** The picture for the ControlNet [name], and how much it counts; [root] is a view of control.xml. */
internal class ControlView(private val root: View, private val name: String, wishes: ControlSettings.Wishes) {
    private val photo = ShownPhoto(root.findViewById(R.id.control_photo))

    init {
        val context = root.context
        view<Button>(R.id.pick_control).text = context.getString(R.string.pick_control, name)
        view<View>(R.id.control_photo).contentDescription = context.getString(R.string.control_photo, name)
        view<View>(R.id.pick_control).setOnClickListener { wishes.pick() }
        view<View>(R.id.remove_control).setOnClickListener { wishes.remove() }
        view<CompoundButton>(R.id.control_edges).setOnCheckedChangeListener { _, checked ->
            wishes.change { it.copy(fromPhoto = checked) }
        }
        view<EditText>(R.id.control_scale).addTextChangedListener(Typed { to -> wishes.change { it.copy(typed = to) } })
        slider(R.id.control_begin) { to -> wishes.change { it.from(to) } }
        slider(R.id.control_until) { to -> wishes.change { it.until(to + 1) } }
    }

    fun show(steered: Steered, manifest: Manifest) {
        val (ready, said) = (steered.photo as? Chosen.Ready) to Sentences(root.context).of(steered.photo)
        view<TextView>(R.id.control_status).text = said
        visible(R.id.control_status, said != "")
        visible(R.id.chosen_control, ready != null)
        photo.show(steered.picture, manifest)
        view<CompoundButton>(R.id.control_edges).run { if (isChecked != steered.fromPhoto) isChecked = steered.fromPhoto }
        view<EditText>(R.id.control_scale).run { if (text.toString() != steered.typed) setText(steered.typed) }
        show(R.id.control_begin, R.id.control_begin_label, (PARTS * steered.begin).roundToInt(), LAST) {
            root.context.getString(R.string.control_begin, percent(steered.begin))
        }
        show(R.id.control_until, R.id.control_until_label, (PARTS * steered.until).roundToInt() - 1, LAST) {
            root.context.getString(R.string.control_until, percent(steered.until))
        }
    }

    /** Returns whether the scale that was typed is one, if the picture steers. */
    fun isRight(steered: Steered): Boolean {
        val isRight = steered.picture == null || steered.scale != null
        if (!isRight) view<EditText>(R.id.control_scale).error = root.context.getString(R.string.bad_scale)
        return isRight
    }

    private fun show(id: Int, label: Int, place: Int, most: Int, said: () -> String) {
        val text = said()
        view<TextView>(label).text = text
        view<SeekBar>(id).show(place, most, text)
    }

    private fun percent(part: Double) = (100 * part).roundToInt()

    private fun slider(id: Int, onSlid: (Int) -> Unit) = view<SeekBar>(id).setOnSeekBarChangeListener(Slid(onSlid))

    private fun visible(id: Int, visible: Boolean) {
        view<View>(id).visibility = if (visible) View.VISIBLE else View.GONE
    }

    private fun <T : View> view(id: Int): T = root.findViewById(id)

    private companion object {
        /** Parts of the steps that a slider tells apart, and the place of the last. */
        const val PARTS = Steered.PARTS
        const val LAST = 19
    }
}
