package @@{package}

import android.app.Activity
import android.net.Uri
import android.util.Log
import dev.msd.runtime.Cancelled
import dev.msd.runtime.GeneratedImage
import dev.msd.runtime.Pipeline
import dev.msd.runtime.Remark
import dev.msd.runtime.Request
import dev.msd.runtime.edges
import dev.msd.runtime.generate
import java.util.concurrent.Executor
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Deferred
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.async
import kotlinx.coroutines.launch
import kotlinx.coroutines.runInterruptible

/** Is told each new state, on the main thread. */
public fun interface Watcher {
    public fun onState(state: State)
}

/**
 * Owns the networks of this process, and generates one image at a time.
 *
 * It belongs to the Application: an Activity that Android recreates, because the screen turns or the language changes,
 * finds the same studio at the same work. Functions are called on the main thread, which [main] executes on; work is
 * done on others. Nothing that goes wrong there ends the app: it becomes a state.
 */
public class Studio(private val phone: Phone, private val main: Executor) {
    private val scope = CoroutineScope(SupervisorJob() + Dispatchers.IO)
    private val watchers = LinkedHashSet<Watcher>()
    private var state = State()
    private var work: Deferred<GeneratedImage>? = null
    private var turn = 0

    /** How often a photo was chosen for each ControlNet, and, under null, to begin from. */
    private val choices = HashMap<Int?, Int>()

    /** Set on the thread that opens it, and read on the main thread, too. */
    @Volatile
    private var pipeline: Pipeline? = null

    init {
        // Where this fails, generating fails too, and says why.
        scope.launch {
            runCatching { phone.manifest }
                .onSuccess { manifest -> main.execute { update(state.copy(manifest = manifest)) } }
        }
    }

    /** Tells [watcher] the state now, and each new one until [unwatch]. */
    public fun watch(watcher: Watcher) {
        watchers += watcher
        watcher.onState(state)
    }

    /** Tells [watcher] nothing more. */
    public fun unwatch(watcher: Watcher) {
        watchers -= watcher
    }

    /** Begins an image, unless the studio is busy. */
    public fun generate(request: Request) {
        if (state.phase.busy) return
        val first = if (pipeline == null) Phase.CHECKING_DEVICE else Phase.ENCODING
        val (photo, strength, steering) = Triple(state.photo, state.strength, state.steering)
        update(State(state.manifest, first, request, photo = photo, strength = strength, steering = steering))
        turn += 1
        val now = turn
        val image = scope.async {
            val pipeline = opened(now)
            remark(now, pipeline.remarks(request))
            pipeline.generate(request) { progress -> report(now) { it.after(progress) } }
        }
        work = image
        // Another coroutine waits, because one that is cancelled before it begins runs nothing of its own.
        scope.launch {
            val made = runCatching { image.await() }
            main.execute { end(made.getOrNull(), made.exceptionOrNull()) }
        }
    }

    /** Begins the same image again. */
    public fun tryAgain() {
        state.request?.let(::generate)
    }

    /** Ends what is fetched, compiled or generated; what the GPU does at this moment it does to its end. */
    public fun cancel() {
        if (!state.phase.busy || state.phase == Phase.SAVING) return
        update(state.at(Phase.CANCELLING))
        work?.cancel()
    }

    /** Asks the user, in [activity], to allow the notification of a download, where there is one. */
    public fun askNotifications(activity: Activity): Unit = phone.askNotifications(activity)

    /** Asks the user, in [activity], whether the model may be fetched over mobile data. */
    public fun askConsent(activity: Activity): Unit = phone.askConsent(activity)

    /** Reads the photo at [address], which the next images begin from, or by which the ControlNet [control] steers. */
    public fun choose(address: Uri, control: Int? = null) {
        choose(Chosen.Reading, control)
        val now = choices[control]
        scope.launch {
            val read = attempt { read(address, steers = control != null) }.getOrElse { Chosen.Unusable(it) }
            main.execute { if (now == choices[control]) choose(read, control) }
        }
    }

    private fun read(address: Uri, steers: Boolean): Chosen {
        val argb = phone.read(address)
        return Chosen.Ready(argb, if (steers) phone.manifest.edges(argb) else null)
    }

    /** Takes [photo] for that, in place of one that is still being read; null for nothing. */
    public fun choose(photo: Chosen?, control: Int? = null) {
        if (photo is Chosen.Unusable) Log.e(TAG, "no photo", photo.problem)
        choices[control] = (choices[control] ?: 0) + 1
        if (control == null) update(state.copy(photo = photo))
        else change(control, state.steered(control).copy(photo = photo))
    }

    /** Changes how much of the photo should change. */
    public fun change(strength: Double): Unit = update(state.copy(strength = strength))

    /** Changes what steers by the ControlNet at a place. */
    public fun change(control: Int, steered: Steered): Unit =
        update(state.copy(steering = state.steering + (control to steered)))

    /** Saves the finished image for the gallery. */
    public fun save() {
        val image = state.image
        if (state.phase != Phase.DONE || image == null) return
        update(state.copy(phase = Phase.SAVING, problem = null))
        val name = "seed-${state.request?.seed}"
        scope.launch {
            val saved = attempt { phone.save(image, name) }
            main.execute {
                saved.exceptionOrNull()?.let { Log.e(TAG, "not saved", it) }
                update(state.copy(phase = Phase.DONE, saved = saved.getOrNull(), problem = saved.exceptionOrNull()))
            }
        }
    }

    /** Returns the pipeline, which is opened once in a process; the device is asked before anything is fetched. */
    private suspend fun opened(now: Int): Pipeline = pipeline ?: run {
        runInterruptible { phone.check() }
        val folder = phone.fetch { arrival -> report(now) { it.after(arrival) } }
        // Kept inside the block: a cancelled block returns nothing, though the pipeline may be open by then.
        runInterruptible {
            phone.open(folder) { progress -> report(now) { it.after(progress) } }.also { pipeline = it }
        }
    }

    /**
     * Returns what [action] does with other apps' content: these throw exceptions of any kind. Of errors only the lack
     * of memory is one that a user can do something about.
     */
    private fun <T> attempt(action: () -> T): Result<T> = try {
        Result.success(action())
    } catch (problem: Exception) {
        Result.failure(problem)
    } catch (problem: OutOfMemoryError) {
        Result.failure(problem)
    }

    /** Shows remarks; the log has what they say to developers. */
    private fun remark(reporting: Int, remarks: List<Remark>) {
        for (remark in remarks) Log.i(TAG, remark.message)
        report(reporting) { it.copy(remarks = remarks) }
    }

    /** Changes the state, unless the turn that reports has been cancelled or has ended: its thread may not know. */
    private fun report(reporting: Int, change: (State) -> State) = main.execute {
        if (reporting == turn && state.phase.busy && state.phase != Phase.CANCELLING) update(change(state))
    }

    /** Ends the turn: nothing else could begin before, so the state is still that of its work. */
    private fun end(image: GeneratedImage?, problem: Throwable?) {
        val cancelled = state.phase == Phase.CANCELLING || problem is Cancelled
        val next = when {
            cancelled -> state.at(Phase.CANCELLED)
            problem == null -> state.at(Phase.DONE).copy(image = image)
            else -> state.at(Phase.FAILED).copy(problem = problem)
        }
        if (next.phase == Phase.FAILED) Log.e(TAG, "no image", problem)
        update(next)
    }

    private fun update(next: State) {
        state = next
        watchers.toList().forEach { it.onState(state) }
    }

    private companion object {
        const val TAG = "Studio"
    }
}
