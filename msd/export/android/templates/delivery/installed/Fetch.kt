package dev.msd.delivery

import dev.msd.runtime.Cancelled
import java.util.concurrent.CancellationException
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.ExecutionException
import java.util.concurrent.FutureTask
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.atomic.AtomicInteger
import kotlin.concurrent.thread

/** The fetch of this process: there is one at a time, and all who ask for the model meanwhile wait for it. */
internal class Fetch private constructor(work: (OnArrival, Stop) -> Unit) {
    private val stop = Stop()
    private val listeners = CopyOnWriteArrayList<OnArrival>()
    private val owners = AtomicInteger()
    private val started = AtomicBoolean()
    private val task = FutureTask<Unit> { work(::tell, stop) }
    private var latest: Arrival? = null

    /**
     * Waits for its end; throws what ended it, and [Cancelled] once [end] was called or the thread interrupted.
     *
     * The fetch ends with the last [owner] who is interrupted; a service, for example, only keeps it alive.
     */
    fun await(onArrival: OnArrival, owner: Boolean) {
        var interrupted = false
        listen(onArrival)
        if (owner) owners.incrementAndGet()
        if (started.compareAndSet(false, true)) thread(name = "msd-fetch", isDaemon = true, block = task::run)
        try {
            task.get()
        } catch (_: InterruptedException) {
            interrupted = true
        } catch (_: CancellationException) {
            throw Cancelled(stop.reason)
        } catch (problem: ExecutionException) {
            throw problem.cause ?: problem
        } finally {
            listeners -= onArrival
            val last = owner && owners.decrementAndGet() == 0
            if (interrupted && last) end(CANCELLED)
        }
        if (interrupted) {
            Thread.currentThread().interrupt()
            throw Cancelled(CANCELLED)
        }
    }

    @Synchronized
    private fun tell(arrival: Arrival) {
        latest = arrival
        for (listener in listeners) listener.onArrival(arrival)
    }

    /** Who comes late hears at once how far the fetch is, and never of an earlier state after a later one. */
    @Synchronized
    private fun listen(onArrival: OnArrival) {
        listeners += onArrival
        latest?.let(onArrival::onArrival)
    }

    private fun end(reason: String) {
        stop.now(reason)
        // Who waits need not wait for the thread, which may be blocked for a while yet and writes nothing more.
        task.cancel(false)
    }

    companion object {
        private const val CANCELLED = "fetching the model was cancelled; the next time it goes on from there"
        private var running: Fetch? = null

        /** Returns the fetch that runs, or null. */
        @Synchronized
        fun running(): Fetch? = running?.takeUnless { it.task.isDone }

        /** Returns the fetch that runs, or else a new one, which does [work] once somebody waits for it. */
        @Synchronized
        fun current(work: (OnArrival, Stop) -> Unit): Fetch = running() ?: Fetch(work).also { running = it }

        /** Ends the fetch that runs, if any, for all who wait. */
        @Synchronized
        fun end(reason: String) {
            running?.end(reason)
        }
    }
}
