package dev.msd.delivery

import com.google.android.gms.tasks.Task
import com.google.android.gms.tasks.Tasks
import com.google.android.play.core.assetpacks.AssetPackException
import com.google.android.play.core.@@{library}.@@{kind}PackManager
import com.google.android.play.core.@@{library}.@@{kind}PackState
import com.google.android.play.core.@@{library}.@@{kind}PackStateUpdateListener
import com.google.android.play.core.@@{library}.@@{kind}PackStates
import com.google.android.play.core.@@{library}.model.@@{kind}PackErrorCode
import com.google.android.play.core.@@{library}.model.@@{kind}PackStatus
import dev.msd.runtime.BadFile
import dev.msd.runtime.Cancelled
import dev.msd.runtime.Why
import java.util.concurrent.ExecutionException
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit

/** Waits until Google Play has delivered [packs]; without news for [patience] milliseconds it asks again. */
internal class Delivery(
    private val manager: @@{kind}PackManager,
    private val packs: List<String>,
    private val patience: Long,
    private val onArrival: OnArrival,
) {
    private val told = LinkedBlockingQueue<@@{kind}PackState>()
    private val states = HashMap<String, @@{kind}PackState>()
    private var isLost = false
    private var losses = 0

    /** Throws [Cancelled] when the thread is interrupted, and the failure that Play's error stands for. */
    fun await() {
        val listener = @@{kind}PackStateUpdateListener { told.put(it) }
        manager.registerListener(listener)
        try {
            ask(manager.fetch(packs))
            while (packs.any { states[it]?.status() != @@{kind}PackStatus.COMPLETED }) next()
        } catch (_: InterruptedException) {
            manager.cancel(packs)
            Thread.currentThread().interrupt()
            throw Cancelled("fetching the model was cancelled; try again, and Google Play goes on from there")
        } finally {
            manager.unregisterListener(listener)
        }
    }

    private fun next() {
        if (isLost) {
            isLost = false
            Thread.sleep(patience)
            ask(manager.fetch(packs))
            return
        }
        val state = told.poll(patience, TimeUnit.MILLISECONDS)
        if (state != null) take(state) else ask(manager.getPackStates(packs))
    }

    private fun ask(task: Task<@@{kind}PackStates>) = try {
        val found = Tasks.await(task).packStates().values
        // All at once, so that the bytes of the last pack count before the first is told.
        for (state in found) if (state.name() in packs) states[state.name()] = state
        found.forEach(::take)
    } catch (problem: ExecutionException) {
        val sentence = "Google Play does not deliver the model: ${problem.cause?.message}"
        val code = (problem.cause as? AssetPackException)?.errorCode
            ?: throw BadFile(sentence, problem, Why.Unreachable)
        fail(code)
    }

    private fun take(state: @@{kind}PackState) {
        if (state.name() !in packs) return
        states[state.name()] = state
        when (state.status()) {
            @@{kind}PackStatus.WAITING_FOR_WIFI -> onArrival.onArrival(Arrival.WaitingForWifi)
            @@{kind}PackStatus.REQUIRES_USER_CONFIRMATION -> onArrival.onArrival(Arrival.NeedsConsent)
            @@{kind}PackStatus.FAILED -> fail(state.errorCode())
            // Play says so of a pack that it has removed meanwhile, or not kept.
            @@{kind}PackStatus.NOT_INSTALLED -> fail(@@{kind}PackErrorCode.DOWNLOAD_NOT_FOUND)
            @@{kind}PackStatus.CANCELED ->
                throw Cancelled("the download was cancelled in Google Play; try again, and it goes on from there")
            @@{kind}PackStatus.PENDING, @@{kind}PackStatus.DOWNLOADING, @@{kind}PackStatus.TRANSFERRING,
            @@{kind}PackStatus.COMPLETED,
            -> tell()
            // UNKNOWN, or what a later Play adds: it says more soon, or is asked again.
            else -> Unit
        }
    }

    private fun tell() {
        val done = states.values.sumOf {
            if (it.status() == @@{kind}PackStatus.COMPLETED) it.totalBytesToDownload() else it.bytesDownloaded()
        }
        onArrival.onArrival(Arrival.Fetching(done, states.values.sumOf { it.totalBytesToDownload() }))
    }

    /** Has Play asked once more after what may pass; throws what cannot, and what does not. */
    private fun fail(code: Int) {
        losses += 1
        if (losses > TRIES || !mayPass(code)) throw failure(code)
        isLost = true
    }

    private companion object {
        const val TRIES = 3
    }
}
