/** Networks that are a few sums, the same as in tests/test_kotlin_pipeline.py, and what they saw. */
package dev.msd.runtime

import android.content.ComponentCallbacks2
import android.os.PowerManager
import android.os.StandInPower
import com.google.ai.edge.litert.StandInDevice
import com.google.ai.edge.litert.StandInPort
import com.google.ai.edge.litert.TensorType
import java.io.File
import java.util.Collections
import java.util.concurrent.CountDownLatch

internal fun compute(file: ModelFile, inputs: Map<String, Any?>): FloatArray = when (file.role) {
    "text_encoder" -> encode(inputs.getValue("tokens") as IntArray, file.outputs[0].shape.last())
    "unet" -> predict(inputs.mapValues { it.value as FloatArray }, file.outputs[0].shape[0])
    else -> decode(inputs.getValue("latent") as FloatArray, file.outputs[0].shape)
}

private fun encode(tokens: IntArray, width: Int) = FloatArray(tokens.size * width) {
    val (i, c) = it / width to it % width
    (((tokens[i] * (c + 1) * 31 + i % 77 * 7) % 97) / 97.0 - 0.5).toFloat()
}

private fun predict(inputs: Map<String, FloatArray>, batch: Int): FloatArray {
    val (latent, context) = inputs.getValue("latent") to inputs.getValue("context")
    val shift = (inputs - "latent" - "context").values.sumOf { told(it, batch) }
    val (row, text) = latent.size / batch to context.size / batch
    return FloatArray(latent.size) {
        val (b, i) = it / row to it % row
        var sum = 0.0
        for (j in 0 until text) sum += context[b * text + j] * (j % 5 + 1)
        (0.6 * latent[it] + 0.3 * latent[b * row + (i + 1) % row] + sum / text + shift).toFloat()
    }
}

/** What a timestep or an embedding, the same in every row, adds. */
private fun told(value: FloatArray, batch: Int): Double {
    val width = maxOf(1, value.size / batch)
    return (0 until width).sumOf { value[it] * (it + 1.0) } / (width * 1000)
}

private fun decode(latent: FloatArray, shape: IntArray): FloatArray {
    val (height, width) = shape[1] to shape[2]
    return FloatArray(height * width * 3) {
        val (y, x, c) = Triple(it / 3 / width, it / 3 % width, it % 3)
        val at = (y / 8 * (width / 8) + x / 8) * 4
        (0.4 * latent[at + c] + 0.1 * latent[at + 3]).toFloat()
    }
}

internal fun Tensor.numbers(): Any = when (this) {
    is Tensor.Floats -> values
    is Tensor.Ints -> values
}

/** Opens fakes, and notes what is opened, run and freed, on which thread. */
private class Fakes(private val refused: String) : Opener {
    val events: MutableList<String> = Collections.synchronizedList(ArrayList())

    override fun open(file: ModelFile): Network {
        note("open", file)
        if (file.role == refused) throw NoGpu("${file.name} cannot be opened on this device's GPU")
        return object : Network {
            override fun run(inputs: Map<String, Tensor>): FloatArray {
                note("run", file)
                return compute(file, inputs.mapValues { it.value.numbers() })
            }

            override fun close() = note("close", file)
        }
    }

    /** Waits until a network has been opened after event [start]; who waits in vain sees it in the events. */
    fun awaitOpened(role: String, start: Int) {
        val end = System.nanoTime() + 10_000_000_000
        while (System.nanoTime() < end) {
            if (events.toList().drop(start).any { it.startsWith("open $role") }) return
            Thread.sleep(1)
        }
    }

    private fun note(what: String, file: ModelFile) {
        events += "$what ${file.role} ${Thread.currentThread().name}"
    }
}

internal fun Members.request(): Request {
    val steps = if (has("steps")) int("steps") else null
    val guidance = if (has("guidance")) number("guidance") else null
    return Request(text("prompt"), text("negative"), whole("seed"), steps, guidance)
}

/** Draws `times` pictures with fakes; cancels the first after `cancel` steps, closes the pipeline after `close`. */
internal fun draw(command: Members): Any {
    val folder = File(command.text("folder"))
    val manifest = Manifest.open(folder)
    val fakes = Fakes(command.text("refused"))
    val told = Collections.synchronizedList(ArrayList<List<Int>>())
    val pipeline = Pipeline(manifest, ClipTokenizer.open(manifest, folder), fakes)
    val results = List(command.int("times")) { time ->
        val begun = CountDownLatch(1)
        val start = fakes.events.size
        lateinit var drawing: Drawing
        drawing = pipeline.draw(command.request()) { done, total ->
            begun.await()
            told += listOf(done, total)
            if (done == total - 1) fakes.awaitOpened("vae_decoder", start)
            if (done == command.int("cancel") && time == 0) drawing.cancel()
            if (done == command.int("close")) pipeline.close()
        }
        begun.countDown()
        drawn(drawing)
    }
    if (command.flag("trim")) pipeline.trim()
    pipeline.close()
    awaitThreads()
    return mapOf(
        "pictures" to results,
        "told" to told.toList(),
        "events" to fakes.events.toList(),
        "after" to drawn { pipeline.draw(command.request()) },
    )
}

private fun drawn(drawing: Drawing): Map<String, Any?> = drawn { drawing }

internal fun drawn(drawing: () -> Drawing): Map<String, Any?> = try {
    val picture = drawing().await()
    val size = listOf(picture.height, picture.width)
    mapOf("argb" to picture.argb.toList(), "latents" to sent(picture.latents), "size" to size)
} catch (problem: RuntimeFailure) {
    mapOf("error" to problem.javaClass.simpleName, "message" to problem.message)
}

private fun awaitThreads() {
    for (thread in Thread.getAllStackTraces().keys) if (thread.name.startsWith("msd-")) thread.join(10_000)
}

/** The inputs and outputs of an exported file, as LiteRT finds them in it. */
private fun ports(file: ModelFile): Map<String, StandInPort> = (file.inputs + file.outputs).associate { port ->
    val type = if (port.dtype == "int32") TensorType.ElementType.INT else TensorType.ElementType.FLOAT
    port.name to StandInPort(TensorType(type, TensorType.Layout(port.shape.toList())))
}

/** Draws two pictures through openPipeline and the stubs of LiteRT; says what the stubs saw. */
internal fun onAndroid(command: Members): Any {
    val folder = File(command.text("folder"))
    val files = Manifest.open(folder).files.associateBy(ModelFile::name)
    StandInDevice.opened.clear()
    StandInDevice.refuses = { command.text("refused") in it && command.text("refused") != "" }
    StandInDevice.ports = { name, signature -> files[name]?.takeIf { it.signature == signature }?.let(::ports) }
    StandInDevice.run = { name, inputs -> compute(files.getValue(name), inputs) }
    val power = StandInPower.manager()
    val context = StandInContext(File(command.text("home")))
    context.services[PowerManager::class.java] = power
    val pipeline = openPipeline(context, folder)
    val hooks = Hooks(context, pipeline)
    val first = drawn(pipeline.draw(command.request()))
    val held = StandInDevice.handles.get()
    val rests = listOf(2, 3, 4, 0).map { status ->
        StandInPower.tell(power, status)
        pipeline.rest
    }
    context.callbacks.forEach { (it as ComponentCallbacks2).onTrimMemory(ComponentCallbacks2.TRIM_MEMORY_BACKGROUND) }
    val second = drawn(pipeline.draw(command.request()))
    hooks.close()
    pipeline.close()
    awaitThreads()
    return mapOf(
        "pictures" to listOf(first, second),
        "opened" to StandInDevice.opened.map {
            val cache = listOf(it.gpu?.serializationDir, it.gpu?.modelCacheKey, it.gpu?.serializeProgramCache)
            listOf(it.file, it.accelerators.map { one -> one.name }, it.gpu?.precision?.name) + cache
        },
        "held" to held,
        "left" to StandInDevice.handles.get(),
        "environments" to StandInDevice.environments.get(),
        "rests" to rests,
        "listening" to context.callbacks.size + StandInPower.listeners(power),
    )
}
