/** Photos that are chosen on the screen, and by a studio. */
package com.example.assets

import android.app.Activity
import android.app.StandInSystem
import android.content.ActivityNotFoundException
import android.content.Intent
import android.graphics.StandInBitmaps
import android.net.Uri
import android.view.View
import android.widget.ImageView
import android.widget.SeekBar
import android.widget.Spinner
import android.widget.StandInViews
import android.widget.TextView
import java.io.File
import java.io.IOException
import org.json.JSONObject

internal val ADDRESS: Uri = Uri.parse("content://picker/1")
internal val BROKEN: Uri = Uri.parse("content://picker/2")

private fun StudioActivity.visible(id: Int) = findViewById<View>(id).visibility == View.VISIBLE

private fun StudioActivity.text(id: Int) = findViewById<TextView>(id).text.toString()

private fun StudioActivity.slider(): SeekBar = findViewById(R.id.strength)

/** Returns what the screen shows of the photo. */
private fun StudioActivity.shown(): List<Any?> = listOf(
    visible(R.id.chosen_photo),
    if (visible(R.id.photo_status)) text(R.id.photo_status) else "",
    text(R.id.strength_label),
    slider().stateDescription?.toString(),
    "${slider().progress} of ${slider().max}",
    findViewById<View>(R.id.generate).isEnabled,
)

private fun StudioActivity.picture(): List<Int>? =
    StandInViews.bitmap(findViewById<ImageView>(R.id.photo))?.let { StandInBitmaps.argb(it).toList() }

private fun answer(screen: StudioActivity, asking: StudioActivity, photo: Uri?) = onMain {
    val result = if (photo == null) Activity.RESULT_CANCELED else Activity.RESULT_OK
    StandInSystem.answer(screen, asking, result, photo?.let { Intent().setData(it) })
}

private fun choose(screen: StudioActivity, seen: Seen, photo: Uri) {
    onMain { screen.click(R.id.pick_photo) }
    answer(screen, screen, photo)
    seen.until { it.photo is Chosen.Reading }
    seen.until { it.photo !is Chosen.Reading }
}

private fun generated(screen: StudioActivity, seen: Seen): State {
    onMain { screen.click(R.id.generate) }
    return seen.until(Phase.DONE)
}

private fun State.begun() =
    request?.image?.let { said("argb" to it.argb.toList(), "strength" to it.strength) }

/** Returns a process whose gallery has a photo and one that cannot be read, what it sees, and its ready screen. */
internal fun withPhotos(command: JSONObject): Triple<Process, Seen, StudioActivity> {
    val process = Process(File(command.getString("home")))
    process.release()
    process.context.gallery.photos[ADDRESS.toString()] = File(command.getString("photo"))
    process.context.gallery.photos[BROKEN.toString()] = File(command.getString("broken"))
    val seen = Seen()
    onMain { process.application.studio.watch(seen) }
    val first = process.screen()
    seen.until { it.manifest != null }
    return Triple(process, seen, first)
}

/** Begins from a photo while the phone turns; then from one that cannot be read, and from none. */
internal fun photo(command: JSONObject): JSONObject {
    val (process, seen, first) = withPhotos(command)
    val atFirst = onMain { listOf(first.visible(R.id.photo_settings)) + first.shown() }
    onMain {
        first.type(R.id.prompt, "a red circle")
        first.type(R.id.seed, "7")
        first.findViewById<Spinner>(R.id.steps).setSelection(1)
        first.click(R.id.pick_photo)
        // Android may take the screen away while the picker is in front, and give its answer to the next one.
        StandInSystem.remove(first)
    }
    val turned = process.screen()
    answer(turned, first, ADDRESS)
    val reading = onMain { turned.shown() }
    seen.until { it.photo is Chosen.Ready }
    val ready = onMain { turned.shown() }
    onMain {
        turned.findViewById<Spinner>(R.id.steps).setSelection(1)
        StandInViews.slide(turned.slider(), 2)
        StandInSystem.remove(turned)
    }
    val again = process.screen()
    val few = onMain { again.shown() }
    val kept = onMain {
        again.findViewById<Spinner>(R.id.steps).setSelection(1)
        again.shown()
    }
    val picture = onMain { again.picture() }
    onMain {
        again.type(R.id.prompt, "a red circle")
        again.type(R.id.seed, "7")
    }
    val begun = generated(again, seen)
    answer(again, again, null)
    val cancelled = onMain { again.shown() }
    choose(again, seen, BROKEN)
    val broken = onMain { again.shown() }
    val without = generated(again, seen)
    choose(again, seen, ADDRESS)
    val cured = onMain { again.shown() }
    onMain { again.click(R.id.remove_photo) }
    val removed = onMain { again.shown() }
    return said(
        "at first" to atFirst,
        "asked" to process.context.started.first().let { listOf(it.action, it.type) },
        "reading" to reading,
        "ready" to ready,
        "few" to few,
        "kept" to kept,
        "picture" to picture,
        "begun" to begun.begun(),
        "steps" to begun.total,
        "compiling" to seen.states.filter { it.phase == Phase.COMPILING }.map { it.network }.distinct(),
        "cancelled" to cancelled,
        "broken" to broken,
        "without" to (without.begun() == null),
        "cured" to cured,
        "removed" to removed,
        "decoded" to StandInBitmaps.decoded(),
        "picture removed" to (onMain { again.picture() } == null),
    )
}

/** Chooses photos faster than they are read, and one that cannot be read. */
internal fun photos(command: JSONObject): JSONObject {
    val phone = StandInPhone(command.folder(), "read")
    val studio = studioOn(phone)
    val seen = Seen()
    onMain {
        studio.watch(seen)
        studio.choose(Uri.parse("content://a/1"))
    }
    phone.awaitHeld()
    onMain { studio.choose(Uri.parse("content://a/longer")) }
    onMain { studio.choose(null) }
    val removed = seen.states.last().photo == null
    onMain { studio.choose(Uri.parse("content://a/longest")) }
    phone.release()
    val last = seen.until { it.photo is Chosen.Ready }.photo as Chosen.Ready
    phone.failures["content://a/3"] = IOException("gone") // of no read that was passed over and is still on its way
    onMain { studio.choose(Uri.parse("content://a/3")) }
    val failed = seen.until { it.photo is Chosen.Unusable }.photo as Chosen.Unusable
    return said(
        "removed" to removed,
        "color" to last.argb.distinct(),
        "ready" to seen.states.count { it.photo is Chosen.Ready },
        "problem" to failed.problem.message,
    )
}

/** Shows a screen of another model, or on an older phone. */
internal fun hidden(command: JSONObject): JSONObject {
    val process = Process(File(command.getString("home")))
    val seen = Seen()
    onMain { process.application.studio.watch(seen) }
    val screen = process.screen()
    val loaded = seen.until { it.manifest != null }
    val asked = onMain {
        screen.click(R.id.pick_photo)
        process.context.started.map { "${it.action} ${it.type} ${it.hasCategory(Intent.CATEGORY_OPENABLE)}" }
    }
    return said(
        "visible" to onMain { screen.visible(R.id.photo_settings) },
        "can" to (loaded.manifest?.image != null),
        "asked" to asked,
    )
}

/** Asks for a photo where no app can choose one. */
internal fun noPicker(command: JSONObject): JSONObject {
    val process = Process(File(command.getString("home")))
    process.context.refused = ActivityNotFoundException("no app")
    val screen = process.screen()
    onMain { screen.click(R.id.pick_photo) }
    return said("shown" to onMain { screen.shown() })
}
