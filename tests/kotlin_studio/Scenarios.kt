/** Answers each line of input, a JSON command of a scenario: `{"ok": …}` or `{"error": …, "message": …}`. */
package com.example.assets

import android.os.Handler
import android.os.Looper
import dev.msd.runtime.BadDevice
import dev.msd.runtime.Cancelled
import dev.msd.runtime.Request
import dev.msd.runtime.Why
import java.io.File
import java.io.IOException
import java.util.concurrent.Executor
import java.util.concurrent.FutureTask
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit
import org.json.JSONArray
import org.json.JSONObject

private val SCENARIOS: Map<String, (JSONObject) -> JSONObject> = mapOf(
    "generate" to ::generate,
    "cancel" to ::cancel,
    "fail" to ::fail,
    "cancel elsewhere" to ::cancelElsewhere,
    "rotate" to ::rotate,
    "save" to ::save,
    "save at once" to ::saveAtOnce,
    "psnr" to ::compare,
    "screen" to ::screen,
    "instrumented" to ::instrumented,
    "photo" to ::photo,
    "photos" to ::photos,
    "hidden" to ::hidden,
    "no picker" to ::noPicker,
    "permit" to ::permit,
    "steer" to ::steer,
    "offers" to ::offers,
    "awake" to { said("phases" to Phase.values().filter { it.computes }.map { it.name }) },
    "reasons" to ::reasons,
    "remarks" to ::remarks,
)

public fun main() {
    for (line in generateSequence(::readlnOrNull)) println(answer(JSONObject(line)))
}

private fun answer(command: JSONObject): JSONObject = try {
    JSONObject().put("ok", SCENARIOS.getValue(command.getString("do"))(command))
} catch (problem: IllegalArgumentException) {
    JSONObject().put("error", "IllegalArgumentException").put("message", problem.message)
} catch (problem: Throwable) {
    JSONObject().put("error", "unexpected").put("message", problem.stackTraceToString())
}

/** A watcher that keeps what it was told; the studio's calls are made on the main thread, as an Activity makes them. */
internal class Seen : Watcher {
    val states = ArrayList<State>()
    private val fresh = LinkedBlockingQueue<State>()

    override fun onState(state: State) {
        check(Looper.getMainLooper().isCurrentThread) { "told on ${Thread.currentThread().name}" }
        states += state
        fresh.put(state)
    }

    /** Waits for a state. */
    fun until(phase: Phase): State = until { it.phase == phase }

    fun until(reached: (State) -> Boolean): State {
        while (true) {
            val state = fresh.poll(60, TimeUnit.SECONDS) ?: error("not reached, but ${phases()}")
            if (reached(state)) return state
        }
    }

    /** Returns the phases from state [first] on, without repetitions. */
    fun phases(first: Int = 0): List<String> {
        val all = states.drop(first).map { it.phase.name + if (it.total > 0) " ${it.done}/${it.total}" else "" }
        return all.filterIndexed { i, phase -> i == 0 || phase != all[i - 1] }
    }
}

internal fun <T> onMain(action: () -> T): T {
    val task = FutureTask(action)
    Handler(Looper.getMainLooper()).post(task)
    return task.get(60, TimeUnit.SECONDS)
}

internal fun studioOn(phone: Phone): Studio = onMain {
    val main = Handler(Looper.getMainLooper())
    Studio(phone, Executor { main.post(it) })
}

internal fun JSONObject.folder() = File(getString("folder"))

private fun request(steps: Int = 2) = Request("a red circle", seed = 7, steps = steps, previewEvery = 1)

internal fun said(vararg facts: Pair<String, Any?>): JSONObject {
    val answer = JSONObject()
    for ((name, value) in facts) answer.put(name, if (value is List<*>) JSONArray(value) else value)
    return answer
}

/** Generates two images, and asks for a third while the first is on its way. */
private fun generate(command: JSONObject): JSONObject {
    val phone = StandInPhone(command.folder())
    val studio = studioOn(phone)
    val seen = Seen()
    onMain {
        studio.watch(seen)
        studio.generate(request())
        studio.generate(request(6))
    }
    val first = seen.until(Phase.DONE)
    val phases = seen.phases()
    val count = seen.states.size
    onMain { studio.generate(request(6)) }
    val second = seen.until(Phase.DONE)
    return said(
        "phases" to phases,
        "steps" to listOf(first.request?.steps, second.request?.steps),
        "argb" to first.image?.argb?.toList(),
        "again" to seen.phases(count),
        "asked" to phone.asked.filterNot { it.startsWith("run") || it.startsWith("close") },
        "schedules" to second.manifest?.schedules?.keys?.toList(),
    )
}

/** Cancels while the phone is held up in a step, and generates again. */
private fun cancel(command: JSONObject): JSONObject {
    val phone = StandInPhone(command.folder(), command.getString("held"))
    val studio = studioOn(phone)
    val seen = Seen()
    onMain {
        studio.watch(seen)
        studio.generate(request())
    }
    phone.awaitHeld()
    onMain { studio.cancel() }
    seen.until(Phase.CANCELLED)
    val phases = seen.phases()
    val count = seen.states.size
    onMain {
        studio.cancel()
        studio.tryAgain()
    }
    // Only now the phone goes on with the first image, and reports what nobody waits for any more.
    phone.release()
    seen.until(Phase.DONE)
    return said("phases" to phases, "again" to seen.phases(count), "opened" to phone.asked.count { it == "open" })
}

/** Lets a step fail, and tries again. */
private fun fail(command: JSONObject): JSONObject {
    val phone = StandInPhone(command.folder())
    phone.failures[command.getString("step")] = when (command.getString("kind")) {
        "BadDevice" -> BadDevice("this device has 2.0 GB of memory", Why.LittleMemory(2_000_000_000, 6_000_000_000))
        "OutOfMemoryError" -> OutOfMemoryError("no memory")
        else -> UnsatisfiedLinkError("no library")
    }
    val studio = studioOn(phone)
    val seen = Seen()
    onMain {
        studio.watch(seen)
        studio.generate(request())
    }
    val failed = seen.until(Phase.FAILED)
    onMain { studio.tryAgain() }
    val end = seen.until(Phase.DONE)
    return said("problem" to failed.problem.toString(), "after" to (end.problem == null), "phases" to seen.phases())
}

/** Cancels the download where Google Play shows it. */
private fun cancelElsewhere(command: JSONObject): JSONObject {
    val phone = StandInPhone(command.folder())
    phone.failures["fetch"] = Cancelled("the download was cancelled")
    val studio = studioOn(phone)
    val seen = Seen()
    onMain {
        studio.watch(seen)
        studio.generate(request())
    }
    val end = seen.until(Phase.CANCELLED)
    return said("phases" to seen.phases(), "problem" to (end.problem != null))
}

/** Lets one screen go and another come while an image is on its way. */
private fun rotate(command: JSONObject): JSONObject {
    val phone = StandInPhone(command.folder(), "run vae_decoder")
    val studio = studioOn(phone)
    val (portrait, landscape) = Seen() to Seen()
    onMain {
        studio.watch(portrait)
        studio.generate(request())
    }
    phone.awaitHeld()
    val told = onMain {
        studio.unwatch(portrait)
        studio.watch(landscape)
        portrait.states.size
    }
    phone.release()
    val end = landscape.until(Phase.DONE)
    return said(
        "same" to (landscape.states.first() === portrait.states.last()),
        "more" to portrait.states.size - told,
        "landscape" to landscape.phases(),
        "image" to (end.image != null),
        "opened" to phone.asked.count { it == "open" },
    )
}

/** Saves an image, after a first attempt that fails. */
private fun save(command: JSONObject): JSONObject {
    val phone = StandInPhone(command.folder())
    phone.failures["save"] = IOException("the disk is full")
    val studio = studioOn(phone)
    val seen = Seen()
    onMain {
        studio.watch(seen)
        studio.save()
        studio.generate(request())
    }
    seen.until(Phase.DONE)
    onMain {
        studio.save()
        studio.cancel()
    }
    val failed = seen.until(Phase.DONE)
    onMain { studio.save() }
    val saved = seen.until(Phase.DONE)
    return said(
        "problem" to failed.problem?.message,
        "saved" to saved.saved.toString(),
        "cured" to (saved.problem == null),
        "phases" to seen.phases().takeLast(5),
    )
}

/** Saves an image in the moment in which it is finished. */
private fun saveAtOnce(command: JSONObject): JSONObject {
    val studio = studioOn(StandInPhone(command.folder()))
    val seen = Seen()
    onMain {
        studio.watch(seen)
        studio.watch { if (it.phase == Phase.DONE && it.saved == null) studio.save() }
        studio.generate(request())
    }
    seen.until(Phase.SAVING)
    return said("saved" to seen.until(Phase.DONE).saved.toString(), "phases" to seen.phases().takeLast(4))
}

private fun compare(command: JSONObject): JSONObject =
    said("psnr" to psnr(pixels(command, "image"), pixels(command, "reference")).toString())

private fun pixels(command: JSONObject, name: String): IntArray {
    val values = command.getJSONArray(name)
    return IntArray(values.length()) { values.getInt(it) }
}
