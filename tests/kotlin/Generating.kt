/** Generates images with networks that are a few sums, and notes what happened. */
package dev.msd.runtime

import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import org.json.JSONObject
import java.io.File
import java.util.Base64
import java.util.Collections
import java.util.concurrent.CountDownLatch

/** Opens networks that are sums, and notes what is opened, run and freed, on which thread. */
internal class Fakes(
    private val refused: String,
    private val spoiled: JSONObject? = null,
    private val compiling: () -> Unit = {},
) : Opener {
    val events: MutableList<String> = Collections.synchronizedList(ArrayList())

    /** Is told of each run, such as "unet 3" of the third. */
    var onRun: (String) -> Unit = {}

    override fun open(file: ModelFile): Network {
        note("open", file)
        compiling()
        if (file.role == refused) throw NoGpu("${file.name} cannot be compiled for this device's GPU")
        return object : Network {
            override fun run(inputs: Map<String, Tensor>): Map<String, FloatArray> {
                note("run", file)
                onRun("${file.role} ${events.count { it.startsWith("run ${file.role} ") }}")
                val outputs = computed(file, inputs.mapValues { it.value.numbers() })
                return outputs.onEach { (_, values) -> spoil(file, values) }
            }

            override fun close() = note("close", file)
        }
    }

    /** Puts a number of `spoiled` into what the network with its role computes: in place of one, or of all. */
    private fun spoil(file: ModelFile, values: FloatArray) {
        if (spoiled?.getString("role") != file.role) return
        val by = spoiled.getString("by").toFloat()
        if (spoiled.getBoolean("all")) values.fill(by) else values[values.size / 2] = by
    }

    private fun note(what: String, file: ModelFile) {
        events += "$what ${file.role} ${Thread.currentThread().name}"
    }
}

internal fun JSONObject.request(): Request = Request(
    prompt = getString("prompt"),
    negativePrompt = getString("negative"),
    seed = getLong("seed"),
    steps = if (isNull("steps")) null else getInt("steps"),
    guidance = if (isNull("guidance")) null else getDouble("guidance"),
    previewEvery = optInt("previews"),
    image = optJSONObject("image")?.initialImage(),
    paste = optBoolean("paste", true),
    controls = optJSONArray("controls")?.run { List(length()) { getJSONObject(it).control() } }.orEmpty(),
    guess = optBoolean("guess"),
    upscale = if (isNull("upscale")) null else getInt("upscale"),
)

private fun JSONObject.control() = Control(
    name = getString("name"),
    argb = getJSONArray("argb").run { IntArray(length(), ::getInt) },
    scale = optDouble("scale", 1.0),
    begin = optDouble("begin", 0.0),
    until = optDouble("until", 1.0),
)

private fun JSONObject.initialImage(): InitialImage {
    val argb = getJSONArray("argb").run { IntArray(length(), ::getInt) }
    val mask = optString("mask").takeIf(String::isNotEmpty)?.let(Base64.getDecoder()::decode)
    val repaint = mask?.let { bytes -> BooleanArray(bytes.size) { bytes[it] != 0.toByte() } }
    return InitialImage(argb, getDouble("strength"), repaint)
}

internal fun said(progress: Progress): List<Any?> = when (progress) {
    is Progress.Checking -> listOf("checking", progress.done, progress.total)
    is Progress.Compiling -> listOf("compiling", progress.network.title)
    is Progress.Encoding -> listOf("encoding")
    is Progress.Denoising -> listOf("step", progress.step, progress.steps, progress.preview?.argb?.toList())
    is Progress.Decoding -> listOf("decoding")
    is Progress.Enlarging -> listOf("enlarging", progress.tile, progress.tiles)
}

/** Generates `times` images; cancels the first after `cancel` steps, or a run, closes the pipeline after `close`. */
internal fun generate(command: JSONObject): Any {
    val fakes = Fakes(command.getString("refused"), command.optJSONObject("spoiled"))
    val told = Collections.synchronizedList(ArrayList<List<Any?>>())
    val pipeline = pipeline(command, fakes)
    val results = List(command.getInt("times")) { time ->
        val begun = CountDownLatch(1)
        lateinit var generation: Generation
        fakes.onRun = { if (it == command.optString("cancelDuring")) generation.cancel() }
        generation = pipeline.start(command.request()) { progress ->
            begun.await()
            told += said(progress)
            val done = (progress as? Progress.Denoising)?.step ?: 0
            if (done > 0 && done == command.getInt("cancel") && time == 0) generation.cancel()
            if (done > 0 && done == command.getInt("close")) pipeline.close()
        }
        begun.countDown()
        outcome { generation.await() }
    }
    if (command.getBoolean("trim")) pipeline.trim()
    pipeline.close()
    awaitThreads()
    return mapOf(
        "images" to results,
        "told" to told.toList(),
        "events" to fakes.events.toList(),
        "after" to outcome { pipeline.start(command.request()).await() },
    )
}

/** Cancels an image while a network is being compiled, which goes on; says who was told what, and when. */
internal fun cancelCompiling(command: JSONObject): Any {
    val (reached, goOn) = CountDownLatch(1) to CountDownLatch(1)
    val fakes = Fakes("") {
        reached.countDown()
        goOn.await()
    }
    val pipeline = pipeline(command, fakes)
    val first = pipeline.start(command.request())
    reached.await()
    first.cancel()
    val cancelled = outcome(first::await)
    val whileCompiling = fakes.events.toList()
    goOn.countDown()
    val second = outcome { pipeline.start(command.request()).await() }
    pipeline.close()
    awaitThreads()
    return mapOf("images" to listOf(cancelled, second), "while" to whileCompiling, "events" to fakes.events.toList())
}

/** Generates by `suspend`, by Flow, and by a coroutine that is cancelled after two steps. */
internal fun byCoroutines(command: JSONObject): Any = runBlocking {
    val fakes = Fakes(command.getString("refused"))
    val pipeline = pipeline(command, fakes)
    val suspended = outcome { runBlocking { pipeline.generate(command.request()) } }
    val updates = try {
        pipeline.updates(command.request()).toList().map { update ->
            when (update) {
                is Update.Working -> said(update.progress)
                is Update.Finished -> listOf("finished", update.image.argb.toList())
            }
        }
    } catch (problem: RuntimeFailure) {
        listOf(problem.javaClass.simpleName, problem.message)
    }
    val ended = cancelAfterTwoSteps(pipeline, command)
    pipeline.close()
    awaitThreads()
    mapOf("suspended" to suspended, "updates" to updates, "ended" to ended, "events" to fakes.events.toList())
}

private suspend fun cancelAfterTwoSteps(pipeline: Pipeline, command: JSONObject): String {
    val (twoSteps, goOn) = CountDownLatch(1) to CountDownLatch(1)
    var ended = "with an image"
    runBlocking {
        val job = launch(kotlinx.coroutines.Dispatchers.Default) {
            try {
                pipeline.generate(command.request()) {
                    if (it is Progress.Denoising && it.step == 2) {
                        twoSteps.countDown()
                        goOn.await()
                    }
                }
            } catch (problem: CancellationException) {
                ended = "cancelled"
                throw problem
            } catch (problem: RuntimeFailure) {
                ended = problem.javaClass.simpleName
                twoSteps.countDown()
            }
        }
        twoSteps.await()
        job.cancelAndJoin()
        goOn.countDown()
    }
    return ended
}

internal fun pipeline(command: JSONObject, opener: Opener): Pipeline {
    val folder = File(command.getString("folder"))
    val manifest = Manifest.open(folder)
    return Pipeline(manifest, ClipTokenizer.openAll(manifest, folder), opener)
}

internal fun outcome(image: () -> GeneratedImage): Map<String, Any?> = try {
    val made = image()
    mapOf("argb" to made.argb.toList(), "latents" to sent(made.latents), "size" to listOf(made.height, made.width))
} catch (problem: RuntimeFailure) {
    mapOf("error" to problem.javaClass.simpleName, "message" to problem.message)
}

internal fun awaitThreads() {
    for (thread in Thread.getAllStackTraces().keys) if (thread.name.startsWith("msd-")) thread.join(10_000)
}
