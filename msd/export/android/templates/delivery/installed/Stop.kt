package dev.msd.delivery

import dev.msd.runtime.Cancelled
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread

/** Lets another thread end a fetch, even while it is blocked. */
internal class Stop {
    private val stopped = CountDownLatch(1)
    private var unblock: () -> Unit = {}

    /** Why the fetch ended; empty while it has not. */
    @Volatile
    var reason: String = ""
        private set

    /** Ends the fetch and returns at once: nothing is written any more, and what blocks is closed elsewhere. */
    fun now(why: String) {
        val closing = synchronized(this) {
            if (stopped.count == 0L) return
            reason = why
            stopped.countDown()
            unblock
        }
        thread(name = "msd-stop", isDaemon = true) {
            try {
                closing()
            } catch (_: Exception) {
                // A connection that is closed under its reader may throw anything; the fetch has ended all the same.
            }
        }
    }

    /** Names what ends a blocked read, from now on. */
    fun unblockBy(action: () -> Unit): Unit = guarded { unblock = action }

    /** Throws [Cancelled] once the fetch has been ended. */
    fun check() {
        if (stopped.count == 0L) throw Cancelled(reason)
    }

    /** Runs [block] unless the fetch has been ended, which waits for the block; throws [Cancelled]. */
    fun <T> guarded(block: () -> T): T = synchronized(this) {
        check()
        block()
    }

    /** Waits, but no longer than until the fetch is ended; throws [Cancelled]. */
    fun pause(milliseconds: Long) {
        stopped.await(milliseconds, TimeUnit.MILLISECONDS)
        check()
    }
}
