package @@{package}

import android.content.Context
import dev.msd.runtime.RuntimeFailure
import dev.msd.runtime.Why
import kotlin.math.ceil

/** Says in words why there is no image, and what can be done; the log has what developers need. */
internal class Reasons(private val context: Context) {
    /** Returns a sentence or two. */
    fun of(problem: Throwable?): String = when (problem) {
        is RuntimeFailure -> of(problem.why)
        is OutOfMemoryError -> context.getString(R.string.no_memory)
        else -> context.getString(R.string.unexpected)
    }

    private fun of(why: Why): String = when (why) {
        is Why.DamagedApp -> context.getString(R.string.damaged_app)
        is Why.DamagedModel -> context.getString(R.string.damaged_model)
        is Why.Unreachable -> context.getString(R.string.unreachable)
        is Why.NotOffered -> context.getString(R.string.not_offered)
        is Why.NotFromPlay -> context.getString(R.string.not_from_play)
        is Why.FullDisk -> fullDisk(why.missing)
        is Why.Unsuitable -> context.getString(R.string.unsuitable)
        is Why.UnfitProcessor -> context.getString(R.string.unfit_processor)
        is Why.OldAndroid -> context.getString(R.string.old_android)
        is Why.LittleMemory -> littleMemory(why)
        is Why.UnusableGpu -> context.getString(R.string.unusable_gpu)
        is Why.RefusedNetwork -> context.getString(R.string.refused_network)
        is Why.NoPicture -> context.getString(R.string.no_picture)
        is Why.Ended -> context.getString(R.string.cancelled)
    }

    private fun fullDisk(missing: Long): String {
        if (missing == 0L) return context.getString(R.string.full_disk)
        return context.getString(R.string.full_disk_by, ceil(missing / MEGABYTE).toLong())
    }

    private fun littleMemory(why: Why.LittleMemory): String {
        if (why.needed == 0L) return context.getString(R.string.little_memory)
        return context.getString(R.string.little_memory_of, why.needed / GIGABYTE, why.found / GIGABYTE)
    }

    private companion object {
        const val MEGABYTE = 1e6
        const val GIGABYTE = 1e9
    }
}
