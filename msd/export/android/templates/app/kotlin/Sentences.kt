package @@{package}

import android.content.ActivityNotFoundException
import android.content.Context

/** Says in words what the studio does; strings.xml has all of them. */
internal class Sentences(private val context: Context) {
    /** Returns what [state] is, and its remarks, each on a line. */
    fun all(state: State): String = (listOf(of(state)) + state.remarks.map(Remarks(context)::of)).joinToString("\n")

    /** Returns what there is to say of the photo, in a sentence; nothing where it can be seen. */
    fun of(photo: Chosen?): String = when (photo) {
        null, is Chosen.Ready -> ""
        is Chosen.Reading -> context.getString(R.string.reading_photo)
        is Chosen.Unusable -> when (photo.problem) {
            is ActivityNotFoundException -> context.getString(R.string.no_picker)
            is OutOfMemoryError -> context.getString(R.string.large_photo)
            else -> context.getString(R.string.unreadable_photo)
        }
    }

    private fun of(state: State): String = when (state.phase) {
        Phase.IDLE -> ""
        Phase.CHECKING_DEVICE -> context.getString(R.string.checking_device)
        Phase.FETCHING -> context.getString(R.string.fetching, megabytes(state.done), megabytes(state.total))
        Phase.WAITING_FOR_WIFI -> context.getString(R.string.waiting_for_wifi)
        Phase.NEEDS_CONSENT -> context.getString(R.string.needs_consent)
        Phase.CHECKING_FILES -> context.getString(R.string.checking_files, percent(state))
        Phase.COMPILING -> context.getString(R.string.compiling)
        Phase.ENCODING -> context.getString(encoding(state))
        Phase.DENOISING -> context.getString(R.string.denoising, state.done, state.total)
        Phase.DECODING -> context.getString(R.string.decoding)
        Phase.ENLARGING -> context.getString(R.string.enlarging, state.done, state.total)
        Phase.CANCELLING -> context.getString(R.string.cancelling)
        Phase.CANCELLED -> context.getString(R.string.cancelled)
        Phase.FAILED -> Reasons(context).of(state.problem)
        Phase.SAVING -> context.getString(R.string.saving)
        Phase.DONE -> finished(state)
    }

    private fun finished(state: State): String = when {
        state.problem is SecurityException -> context.getString(R.string.saving_needs)
        state.problem != null -> context.getString(R.string.not_saved)
        state.saved != null -> context.getString(R.string.saved, context.getString(R.string.app_name))
        else -> context.getString(R.string.finished, state.request?.seed ?: 0)
    }

    private fun encoding(state: State) =
        if (state.request?.image == null) R.string.encoding else R.string.encoding_photo

    private fun percent(state: State) = 100 * state.done / maxOf(state.total, 1)
}

internal fun megabytes(bytes: Long): Long = bytes / 1_000_000
