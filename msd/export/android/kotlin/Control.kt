package dev.msd.runtime

import kotlin.math.abs
import kotlin.math.pow

/**
 * A picture by which the ControlNet [name] steers: [argb] has one colour per pixel, of exactly the manifest's width and
 * height; opaque. Its outputs count [scale] times, in the steps from [begin] to [until], as parts of all.
 */
public class Control(
    public val name: String,
    public val argb: IntArray,
    public val scale: Double = 1.0,
    public val begin: Double = 0.0,
    public val until: Double = 1.0,
)

/** A run of the denoiser, [index], from 0, of [total]. */
internal class Place(val index: Int, val total: Int)

/** What a call that takes pictures is given for a row beside others. */
internal class Steering(val hints: Values = emptyMap(), val scales: Values = emptyMap())

/** The names of the model's ControlNets. */
public val Manifest.controls: List<String> get() = calls.flatMap(Call::hints)

/** Throws [BadRequest] for controls that the model does not have, that do not fit it, or count out of bounds. */
internal fun Manifest.requireControls(request: Request) {
    val (known, names) = controls to request.controls.map(Control::name)
    if (request.guess && names.isEmpty()) throw BadRequest("guess mode is for pictures that steer: give a control")
    for (control in request.controls) {
        val name = control.name
        if (name !in known) {
            throw BadRequest("this model has no ControlNet $name; it has ${known.joinToString().ifEmpty { "none" }}")
        }
        if (names.count { it == name } > 1) throw BadRequest("the control $name is given twice")
        if (control.argb.size != width * height) {
            throw BadRequest("the picture of the control $name should have $width times $height pixels")
        }
        if (!(abs(control.scale) <= MOST_SCALE)) {
            throw BadRequest("the scale ${control.scale} should be a number up to $MOST_SCALE")
        }
        if (!(control.begin >= 0 && control.begin < control.until && control.until <= 1)) {
            throw BadRequest(
                "the control $name counts from ${control.begin} until ${control.until}; both are parts of all steps",
            )
        }
    }
}

/** Returns what [call] is given beside other calls for each row; null for a row that a ControlNet does not steer. */
internal fun Request.steering(call: Call, file: ModelFile, place: Place, rows: Int): List<Steering?> {
    val steering = controls.filter { it.name in call.hints }
    val hints = steering.associate { it.name to rgb(it.argb) }
    return List(rows) { row ->
        val steers = !(guess && rows > 1 && row == 0)
        val scales = steering.associate { it.name to it.scales(place, call.scalesOf(it.name, file), guess, steers) }
        val idle = scales.values.all { values -> values.all { it == 0f } }
        if (call.control.isNotEmpty() && idle) null else Steering(hints, scales)
    }
}

/** Returns how many outputs the ControlNet [name] has, by what a call takes. */
private fun Call.scalesOf(name: String, file: ModelFile): Int {
    val input = inputs.find { input -> input.sources.any { it.kind == "scales" && it.of == name } }
    return input?.let { file.input(it.name) }?.shape?.last() ?: 0
}

/** Returns a remark for each control that steers none of [runs] runs of the denoiser. */
internal fun List<Control>.idle(runs: Int): List<Remark> =
    filter { control -> (0 until runs).none { control.scaleAt(Place(it, runs)) != 0.0 } }
        .map { Remark.IdleControl(it.name, runs) }

private fun Control.scaleAt(place: Place): Double {
    val (index, total) = place.index.toDouble() to place.total
    return if (index / total >= begin && (index + 1) / total <= until) scale else 0.0
}

/** Returns by how much each of [count] outputs counts in a run of the denoiser; 0 where it does not [steers]. */
private fun Control.scales(place: Place, count: Int, guess: Boolean, steers: Boolean): FloatArray {
    val size = if (steers) scaleAt(place).toFloat() else 0f
    return FloatArray(count) {
        size * (if (guess) LEAST_GUESS.pow(1 - it.toDouble() / maxOf(count - 1, 1)) else 1.0).toFloat()
    }
}

/** The factor of a ControlNet's first output in guess mode; that of its last is 1. */
private const val LEAST_GUESS = 0.1
private const val MOST_SCALE = 1000.0
