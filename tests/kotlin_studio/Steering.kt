/** Pictures that steer, chosen on the screen, and an image that is enlarged. */
package com.example.assets

import android.app.Activity
import android.app.StandInSystem
import android.content.Intent
import android.graphics.StandInBitmaps
import android.net.Uri
import android.view.View
import android.view.ViewGroup
import android.widget.Button
import android.widget.CheckBox
import android.widget.EditText
import android.widget.SeekBar
import android.widget.StandInViews
import android.widget.TextView
import java.io.File
import org.json.JSONObject

private val SLIDERS = listOf(R.id.control_begin, R.id.control_until)
private val LABELS = listOf(R.id.control_begin_label, R.id.control_until_label)

private fun visible(view: View) = view.visibility == View.VISIBLE

private fun StudioActivity.visible(id: Int) = visible(findViewById<View>(id))

private fun StudioActivity.control(i: Int): View = findViewById<ViewGroup>(R.id.controls).getChildAt(i)

private fun StudioActivity.pick(i: Int) = control(i).findViewById<View>(R.id.pick_control).performClick()

private fun StudioActivity.count(i: Int, times: String) =
    control(i).findViewById<EditText>(R.id.control_scale).setText(times)

private fun StudioActivity.tick(i: Int, edges: Boolean) {
    control(i).findViewById<CheckBox>(R.id.control_edges).isChecked = edges
}

private fun StudioActivity.picture(i: Int): List<Int> =
    StandInBitmaps.argb(StandInViews.bitmap(control(i).findViewById(R.id.control_photo))).toList()

private fun StudioActivity.slide(i: Int, id: Int, place: Int) =
    StandInViews.slide(control(i).findViewById<SeekBar>(id), place)

/** Returns what the screen shows of the picture for a ControlNet. */
private fun StudioActivity.shown(i: Int): List<Any> = control(i).run {
    val status = findViewById<TextView>(R.id.control_status)
    val sliders = SLIDERS.map { findViewById<SeekBar>(it).run { "$progress of $max" } }
    val labels = LABELS.map { findViewById<TextView>(it).text.toString() }
    listOf(visible(findViewById(R.id.chosen_control)), if (visible(status)) status.text.toString() else "",
        findViewById<CheckBox>(R.id.control_edges).isChecked,
        findViewById<EditText>(R.id.control_scale).text.toString()) + sliders + labels
}

private fun answer(screen: StudioActivity, seen: Seen, i: Int, photo: Uri) {
    onMain {
        screen.pick(i)
        StandInSystem.answer(screen, screen, Activity.RESULT_OK, Intent().setData(photo))
    }
    seen.until { it.steered(i).photo is Chosen.Reading }
    seen.until { it.steered(i).photo !is Chosen.Reading }
}

private fun generated(screen: StudioActivity, seen: Seen): State {
    onMain { screen.click(R.id.generate) }
    // What is chosen meanwhile is told in the phase of the last image.
    seen.until { it.phase.busy }
    return seen.until(Phase.DONE)
}

private fun State.asked() = request?.run {
    val steering = controls.map { said("name" to it.name, "counts" to listOf(it.scale, it.begin, it.until)) }
    said("controls" to steering, "guess" to guess, "upscale" to upscale)
}

/** Steers by one picture of two while the phone turns, enlarges; then a picture that cannot be read, and none. */
internal fun steer(command: JSONObject): JSONObject {
    val (process, seen, first) = withPhotos(command)
    val offered = onMain {
        val texts = List(first.findViewById<ViewGroup>(R.id.controls).childCount) { i ->
            first.control(i).findViewById<Button>(R.id.pick_control).text.toString()
        }
        listOf(first.visible(R.id.control_settings), first.visible(R.id.guess), first.visible(R.id.upscale)) + texts +
            first.findViewById<TextView>(R.id.upscale).text.toString()
    }
    val atFirst = onMain { first.shown(1) }
    answer(first, seen, 1, ADDRESS)
    val ready = onMain { first.shown(1) }
    onMain {
        first.count(1, "-1000.5")
        first.tick(1, true)
        first.slide(1, R.id.control_until, 7)
        first.slide(1, R.id.control_begin, 13)
        StandInSystem.remove(first)
    }
    val turned = process.screen()
    val kept = onMain { turned.shown(1) }
    val edges = onMain { turned.picture(1) }
    val picture = onMain {
        turned.tick(1, false)
        turned.picture(1)
    }
    val refused = onMain {
        turned.click(R.id.generate)
        "${turned.control(1).findViewById<EditText>(R.id.control_scale).error}"
    }
    onMain {
        turned.tick(1, true)
        turned.count(1, "-0.7")
    }
    val guessable = onMain {
        turned.findViewById<CheckBox>(R.id.guess).isChecked = true
        turned.findViewById<CheckBox>(R.id.upscale).isChecked = true
        turned.visible(R.id.guess)
    }
    val steered = generated(turned, seen)
    onMain { turned.slide(1, R.id.control_until, 2) }
    val earlier = onMain { turned.shown(1) }
    answer(turned, seen, 0, BROKEN)
    val broken = onMain { turned.shown(0) }
    onMain {
        turned.control(1).findViewById<View>(R.id.remove_control).performClick()
        turned.findViewById<CheckBox>(R.id.upscale).isChecked = false
    }
    val removed = onMain { turned.shown(1) + turned.visible(R.id.guess) }
    val phases = seen.phases()
    val plain = generated(turned, seen)
    return said(
        "offered" to offered,
        "at first" to atFirst,
        "ready" to ready,
        "kept" to kept,
        "picture" to picture,
        "edges" to edges,
        "refused" to refused,
        "guess" to guessable,
        "steered" to steered.asked(),
        "pixels" to steered.request?.controls?.single()?.argb?.toList(),
        "size" to steered.image?.run { listOf(height, width) },
        "compiled" to seen.states.filter { it.phase == Phase.COMPILING }.map { it.network }.distinct(),
        "phases" to phases,
        "earlier" to earlier,
        "broken" to broken,
        "removed" to removed,
        "plain" to plain.asked(),
        "plain size" to plain.image?.run { listOf(height, width) },
    )
}

/** Returns whether the screen of a model offers to steer and to enlarge. */
internal fun offers(command: JSONObject): JSONObject {
    val process = Process(File(command.getString("home")))
    val seen = Seen()
    onMain { process.application.studio.watch(seen) }
    val screen = process.screen()
    seen.until { it.manifest != null }
    return said("steers" to onMain { screen.visible(R.id.control_settings) },
        "enlarges" to onMain { screen.visible(R.id.upscale) })
}
