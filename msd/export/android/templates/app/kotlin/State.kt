package @@{package}

import android.net.Uri
import dev.msd.delivery.Arrival
import dev.msd.runtime.GeneratedImage
import dev.msd.runtime.Manifest
import dev.msd.runtime.Progress
import dev.msd.runtime.Remark
import dev.msd.runtime.Request
import kotlin.math.abs

/**
 * What the studio does; while it is [busy], nothing else can begin. While it [computes], the screen stays on, since
 * Android may end an app that is not visible; a download needs no screen, and a question may wait for hours.
 */
public enum class Phase(public val busy: Boolean, public val computes: Boolean = false) {
    IDLE(false),
    CHECKING_DEVICE(true, computes = true),
    FETCHING(true),
    WAITING_FOR_WIFI(true),
    NEEDS_CONSENT(true),
    CHECKING_FILES(true, computes = true),
    COMPILING(true, computes = true),
    ENCODING(true, computes = true),
    DENOISING(true, computes = true),
    DECODING(true, computes = true),
    ENLARGING(true, computes = true),
    CANCELLING(true),
    CANCELLED(false),
    FAILED(false),
    DONE(false),
    SAVING(true),
}

/** The photo that the next images begin from. */
public sealed class Chosen {
    /** It is being read. */
    public object Reading : Chosen()

    /** It is there, of the model's size; [argb] has a colour per pixel, and so have the [edges] of what may steer. */
    public class Ready(public val argb: IntArray, public val edges: IntArray? = null) : Chosen()

    /** It cannot be used. */
    public class Unusable(public val problem: Throwable) : Chosen()
}

/**
 * The picture by which a ControlNet steers, of the [photo] or of its edges: it counts so many times as [typed] says,
 * once where that is empty, in the steps from [begin] to [until], which are parts of all.
 */
public data class Steered(
    public val photo: Chosen? = null,
    public val fromPhoto: Boolean = false,
    public val typed: String = "",
    public val begin: Double = 0.0,
    public val until: Double = 1.0,
) {
    /** What the model sees, once it is there. */
    internal val picture: IntArray? get() = (photo as? Chosen.Ready)?.run { if (fromPhoto) edges else argb }

    /** How many times it counts; null where what was typed is no such number. */
    internal val scale: Double?
        get() = if (typed.isEmpty()) 1.0 else typed.toDoubleOrNull()?.takeIf { abs(it) <= MOST_SCALE }

    /** Returns this one from the end of another part on; it ends later where it would be over by then. */
    internal fun from(part: Int): Steered = copy(begin = part / PARTS, until = maxOf(until, (part + 1) / PARTS))

    /** Returns this one until the end of another part; it begins earlier where it would not have begun by then. */
    internal fun until(part: Int): Steered = copy(begin = minOf(begin, (part - 1) / PARTS), until = part / PARTS)

    internal companion object {
        /** The steps have so many parts. */
        const val PARTS = 20.0

        /** Far beyond what is of use, as in msd/bounds.py. */
        const val MOST_SCALE = 1000.0
    }
}

/**
 * All that a screen shows. It never changes: the studio makes a new one.
 *
 * [done] of [total] are bytes, steps or parts, 0 of 0 where nothing is counted. [network] is the role of the network that
 * is being compiled. [image] is a preview until the phase is [Phase.DONE]. [saved] is where the gallery has the image.
 * [remarks] are on what of the request is not used as it may have been meant.
 * [photo] is what the next image begins from, and [strength] how much of it should change: 0 to 1. [steering] has what
 * steers it, by the places of the model's ControlNets.
 */
public data class State(
    public val manifest: Manifest? = null,
    public val phase: Phase = Phase.IDLE,
    public val request: Request? = null,
    public val done: Long = 0,
    public val total: Long = 0,
    public val network: String = "",
    public val image: GeneratedImage? = null,
    public val saved: Uri? = null,
    public val problem: Throwable? = null,
    public val remarks: List<Remark> = emptyList(),
    public val photo: Chosen? = null,
    public val strength: Double = 0.8,
    public val steering: Map<Int, Steered> = emptyMap(),
) {
    /** Whether a photo is being read. */
    internal val reads: Boolean get() = (steering.values.map(Steered::photo) + photo).any { it is Chosen.Reading }

    /** Returns what steers by the ControlNet at a place. */
    internal fun steered(control: Int): Steered = steering[control] ?: Steered()

    internal fun after(arrival: Arrival): State = when (arrival) {
        is Arrival.Fetching -> at(Phase.FETCHING, arrival.done, arrival.total)
        is Arrival.WaitingForWifi -> at(Phase.WAITING_FOR_WIFI)
        is Arrival.NeedsConsent -> at(Phase.NEEDS_CONSENT)
        is Arrival.Checking -> at(Phase.CHECKING_FILES, arrival.done, arrival.total)
    }

    internal fun after(progress: Progress): State = when (progress) {
        is Progress.Checking -> at(Phase.CHECKING_FILES, progress.done, progress.total)
        is Progress.Compiling -> at(Phase.COMPILING).copy(network = progress.network.role)
        is Progress.Encoding -> at(Phase.ENCODING)
        is Progress.Denoising -> at(Phase.DENOISING, progress.step.toLong(), progress.steps.toLong())
            .copy(image = progress.preview ?: image)
        is Progress.Decoding -> at(Phase.DECODING)
        is Progress.Enlarging -> at(Phase.ENLARGING, progress.tile.toLong(), progress.tiles.toLong())
    }

    /** Returns this state in another phase, where nothing is counted unless [total] says so. */
    internal fun at(phase: Phase, done: Long = 0, total: Long = 0): State =
        copy(phase = phase, done = done, total = total)
}
