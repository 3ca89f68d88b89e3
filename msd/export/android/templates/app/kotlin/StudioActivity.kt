package @@{package}

import android.app.Activity
import android.content.Intent
import android.net.Uri
import android.os.Build
import android.os.Bundle
import android.view.View
import android.view.WindowInsets
import android.widget.ArrayAdapter
import android.widget.Button
import android.widget.CheckBox
import android.widget.CompoundButton
import android.widget.EditText
import android.widget.ImageView
import android.widget.ProgressBar
import android.widget.Spinner
import android.widget.TextView
import dev.msd.runtime.GeneratedImage
import dev.msd.runtime.Manifest
import dev.msd.runtime.Request
import kotlin.random.Random

/** The screen: it shows the studio's state and passes wishes on; it owns nothing that takes time or memory. */
public class StudioActivity : Activity() {
    private val studio: Studio get() = (application as StudioApplication).studio
    private val watcher = Watcher(::show)
    private lateinit var photo: PhotoSettings
    private lateinit var controls: ControlSettings
    private var shown: GeneratedImage? = null
    private var saved: Uri? = null

    /** How many times the model's upscaler enlarges, if it has one. */
    private var scale: Int? = null

    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        setContentView(R.layout.studio)
        photo = PhotoSettings(this, studio)
        controls = ControlSettings(this, studio)
        keepOutOfBars(view(R.id.screen))
        onClick(R.id.generate) { generate() }
        onClick(R.id.try_again) { studio.tryAgain() }
        onClick(R.id.cancel) { studio.cancel() }
        onClick(R.id.consent) { studio.askConsent(this) }
        onClick(R.id.save) { save() }
        onClick(R.id.share) { share() }
        view<CompoundButton>(R.id.more).setOnCheckedChangeListener { _, checked -> visible(R.id.settings, checked) }
    }

    override fun onStart() {
        super.onStart()
        studio.watch(watcher)
    }

    override fun onActivityResult(requestCode: Int, resultCode: Int, data: Intent?) {
        super.onActivityResult(requestCode, resultCode, data)
        photo.onResult(requestCode, data)
        controls.onResult(requestCode, data)
    }

    override fun onStop() {
        studio.unwatch(watcher)
        super.onStop()
    }

    private fun generate() {
        val seed = seed() ?: return
        if (!guidanceIsRight() || !controls.scalesAreRight()) return
        val steps = view<Spinner>(R.id.steps).selectedItem as? Int
        studio.askNotifications(this)
        val request = Request(
            prompt = view<EditText>(R.id.prompt).text.toString(),
            negativePrompt = view<EditText>(R.id.negative_prompt).text.toString(),
            seed = seed,
            steps = steps,
            guidance = view<EditText>(R.id.guidance).text.toString().toDoubleOrNull(),
            previewEvery = PREVIEW_EVERY,
            image = photo.image(steps),
            controls = controls.chosen(),
            guess = controls.guess(),
            upscale = scale?.takeIf { view<CheckBox>(R.id.upscale).isChecked },
        )
        studio.generate(request)
    }

    /** Returns the seed that was typed, or a random one; null where what was typed is none. */
    private fun seed(): Long? {
        val field = view<EditText>(R.id.seed)
        val text = field.text.toString()
        if (text.isEmpty()) return Random.nextLong(SEEDS)
        val seed = text.toLongOrNull()?.takeIf { it >= 0 }
        if (seed == null) field.error = getString(R.string.bad_seed)
        return seed
    }

    /** Returns whether the guidance that was typed is some; without any, the model's own counts. */
    private fun guidanceIsRight(): Boolean {
        val field = view<EditText>(R.id.guidance)
        val text = field.text.toString()
        val isRight = text.isEmpty() || text.toDoubleOrNull()?.let { it in 0.0..MOST_GUIDANCE } == true
        if (!isRight) field.error = getString(R.string.bad_guidance)
        return isRight
    }

    /** Saves the image; before Android 10, once the user has allowed the app to write to the phone's storage. */
    private fun save() {
        if (Gallery.isOpen(this)) studio.save() else requestPermissions(arrayOf(Gallery.PERMISSION), SAVE)
    }

    override fun onRequestPermissionsResult(requestCode: Int, permissions: Array<String>, grantResults: IntArray) {
        super.onRequestPermissionsResult(requestCode, permissions, grantResults)
        // Refused, too: then the studio's state says what is missing.
        if (requestCode == SAVE) studio.save()
    }

    private fun share() {
        val send = Intent(Intent.ACTION_SEND)
            .setType(Gallery.PNG)
            .putExtra(Intent.EXTRA_STREAM, saved ?: return)
            .addFlags(Intent.FLAG_GRANT_READ_URI_PERMISSION)
        startActivity(Intent.createChooser(send, null))
    }

    private fun show(state: State) {
        val phase = state.phase
        saved = state.saved
        offer(state.manifest)
        photo.show(state)
        controls.show(state)
        view<TextView>(R.id.status).text = Sentences(this).all(state)
        show(state.image, state.request?.prompt.orEmpty())
        view<ProgressBar>(R.id.progress).apply {
            isIndeterminate = state.total == 0L
            max = PROGRESS
            progress = (PROGRESS * state.done / maxOf(state.total, 1)).toInt()
        }
        visible(R.id.progress, phase.busy)
        visible(R.id.consent, phase == Phase.WAITING_FOR_WIFI || phase == Phase.NEEDS_CONSENT)
        visible(R.id.try_again, phase == Phase.FAILED)
        view<View>(R.id.generate).isEnabled = !phase.busy && !state.reads
        view<View>(R.id.cancel).isEnabled = phase.busy && phase != Phase.CANCELLING && phase != Phase.SAVING
        view<View>(R.id.save).isEnabled = phase == Phase.DONE && saved == null
        view<View>(R.id.share).isEnabled = phase == Phase.DONE && saved != null
        view<View>(R.id.screen).keepScreenOn = phase.computes
    }

    /** Shows an image, and makes a bitmap of it only where it is another than before. */
    private fun show(image: GeneratedImage?, prompt: String) {
        if (image === shown) return
        shown = image
        view<ImageView>(R.id.image).apply {
            setImageBitmap(image?.let(Gallery::bitmap))
            contentDescription = getString(R.string.image_of, prompt)
        }
    }

    /** Offers to enlarge, where the model can, and the numbers of steps that it has schedules for, the first chosen. */
    private fun offer(manifest: Manifest?) {
        val choice = view<Spinner>(R.id.steps)
        if (manifest == null || choice.adapter != null) return
        scale = manifest.upscaler?.scale
        visible(R.id.upscale, scale != null)
        view<CheckBox>(R.id.upscale).text = getString(R.string.upscale, scale ?: 1)
        val steps = manifest.schedules.keys.toList()
        choice.adapter = ArrayAdapter(this, android.R.layout.simple_spinner_dropdown_item, steps)
    }

    private fun onClick(id: Int, action: () -> Unit) = view<Button>(id).setOnClickListener { action() }

    private fun visible(id: Int, visible: Boolean) {
        view<View>(id).visibility = if (visible) View.VISIBLE else View.GONE
    }

    private fun <T : View> view(id: Int): T = findViewById(id)

    private companion object {
        /** Steps between two previews, where the model has a network for them. */
        const val PREVIEW_EVERY = 2

        /** Random seeds are below this: short enough to be typed again. */
        const val SEEDS = 1L shl 32

        /** Far beyond what is of use, as in msd/bounds.py. */
        const val MOST_GUIDANCE = 1000.0

        /** The request for the permission to save. */
        const val SAVE = 2

        /** How finely the progress bar moves. */
        const val PROGRESS = 1000
    }
}

/**
 * Keeps a screen's content out of the bars, the cutout and the keyboard.
 *
 * From Android 15 on, an app with this targetSdk draws behind them. Before Android 11 there is no such thing to ask.
 */
private fun keepOutOfBars(screen: View) {
    if (Build.VERSION.SDK_INT < Build.VERSION_CODES.R) return
    screen.setOnApplyWindowInsetsListener { view, insets ->
        val kept = WindowInsets.Type.systemBars() or WindowInsets.Type.displayCutout() or WindowInsets.Type.ime()
        val around = insets.getInsets(kept)
        view.setPadding(around.left, around.top, around.right, around.bottom)
        WindowInsets.CONSUMED
    }
}
