package @@{package}

import android.content.ActivityNotFoundException
import android.content.Context
import dev.msd.runtime.RuntimeFailure

/** Says in words what the studio does. */
internal class Sentences(private val context: Context) {
    /** Returns what [state] is, in a sentence. */
    fun of(state: State): String = when (state.phase) {
        Phase.IDLE -> ""
        Phase.CHECKING_DEVICE -> context.getString(R.string.checking_device)
        Phase.FETCHING -> context.getString(R.string.fetching, megabytes(state.done), megabytes(state.total))
        Phase.WAITING_FOR_WIFI -> context.getString(R.string.waiting_for_wifi)
        Phase.NEEDS_CONSENT -> context.getString(R.string.needs_consent)
        Phase.CHECKING_FILES -> context.getString(R.string.checking_files, percent(state))
        Phase.COMPILING -> context.getString(R.string.compiling, state.network)
        Phase.ENCODING -> context.getString(encoding(state))
        Phase.DENOISING -> context.getString(R.string.denoising, state.done, state.total)
        Phase.DECODING -> context.getString(R.string.decoding)
        Phase.CANCELLING -> context.getString(R.string.cancelling)
        Phase.CANCELLED -> context.getString(R.string.cancelled)
        Phase.FAILED -> why(state.problem)
        Phase.SAVING -> context.getString(R.string.saving)
        Phase.DONE -> finished(state)
    }

    /** Returns what there is to say of the photo, in a sentence; nothing where it can be seen. */
    fun of(photo: Chosen?): String = when (photo) {
        null, is Chosen.Ready -> ""
        is Chosen.Reading -> context.getString(R.string.reading_photo)
        is Chosen.Unusable ->
            if (photo.problem is ActivityNotFoundException) context.getString(R.string.no_picker)
            else context.getString(R.string.unreadable_photo)
    }

    private fun finished(state: State): String {
        val problem = state.problem
        return when {
            problem != null -> context.getString(R.string.not_saved, problem.message ?: problem.toString())
            state.saved != null -> context.getString(R.string.saved, context.getString(R.string.app_name))
            else -> context.getString(R.string.finished, state.request?.seed ?: 0)
        }
    }

    private fun why(problem: Throwable?): String {
        val message = (problem as? RuntimeFailure)?.message
        return message ?: context.getString(R.string.unexpected, problem.toString())
    }

    private fun encoding(state: State) =
        if (state.request?.image == null) R.string.encoding else R.string.encoding_photo

    private fun megabytes(bytes: Long) = bytes / 1_000_000

    private fun percent(state: State) = 100 * state.done / maxOf(state.total, 1)
}
