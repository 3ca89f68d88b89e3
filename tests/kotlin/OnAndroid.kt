/** The parts of the library that use Android and LiteRT, on a device that the test plays. */
package dev.msd.runtime

import android.app.ActivityManager
import android.app.StandInSystem
import android.content.ComponentCallbacks2
import android.os.PowerManager
import android.os.StandInPower
import com.google.ai.edge.litert.Accelerator
import com.google.ai.edge.litert.StandInDevice
import com.google.ai.edge.litert.StandInPort
import com.google.ai.edge.litert.TensorType
import org.json.JSONObject
import java.io.File

/** The inputs and outputs of an exported file, as LiteRT finds them in it. */
private fun ports(file: ModelFile): Map<String, StandInPort> = (file.inputs + file.outputs).associate { port ->
    val type = if (port.dtype == "int32") TensorType.ElementType.INT else TensorType.ElementType.FLOAT
    port.name to StandInPort(TensorType(type, TensorType.Layout(port.shape.toList())))
}

private fun play(folder: File, refused: String) {
    val files = Manifest.open(folder).files.associateBy(ModelFile::name)
    StandInDevice.opened.clear()
    StandInDevice.refuses = { refused in it && refused != "" }
    StandInDevice.ports = { name, signature -> files[name]?.takeIf { it.signature == signature }?.let(::ports) }
    StandInDevice.run = { name, inputs -> computed(files.getValue(name), inputs) }
}

/** Generates two images through openPipeline and the stubs of LiteRT; says what the stubs saw. */
internal fun onAndroid(command: JSONObject): Any {
    val folder = File(command.getString("folder"))
    play(folder, command.getString("refused"))
    val power = StandInPower.manager()
    val context = StandInContext(File(command.getString("home")))
    context.services[PowerManager::class.java] = power
    val checked = ArrayList<List<Any?>>()
    val pipeline = openPipeline(context, folder) { checked += said(it) }
    val hooks = Hooks(context, pipeline)
    val first = outcome { pipeline.start(command.request()).await() }
    val held = StandInDevice.handles.get()
    val rests = listOf(2, 3, 4, 0).map { status ->
        StandInPower.tell(power, status)
        pipeline.rest
    }
    context.callbacks.forEach { (it as ComponentCallbacks2).onTrimMemory(ComponentCallbacks2.TRIM_MEMORY_BACKGROUND) }
    val second = outcome { pipeline.start(command.request()).await() }
    hooks.close()
    pipeline.close()
    awaitThreads()
    return mapOf(
        "images" to listOf(first, second),
        "checked" to checked.lastOrNull(),
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

/** Asks a device that has `memory` bytes and the `accelerators`, whose driver `refuses` networks of that name. */
internal fun askDevice(command: JSONObject): Any? {
    val context = StandInContext(File(command.getString("home")))
    context.services[ActivityManager::class.java] = StandInSystem.memory(command.getLong("memory"), 0)
    val accelerators = command.getJSONArray("accelerators").run { List(length(), ::getString) }
    StandInDevice.available = accelerators.map(Accelerator::valueOf).toSet()
    StandInDevice.refuses = { command.getString("refused") in it && command.getString("refused") != "" }
    StandInDevice.opened.clear()
    try {
        checkDevice(context, manifest(command))
    } finally {
        StandInDevice.available = setOf(Accelerator.CPU, Accelerator.GPU)
    }
    return StandInDevice.opened.map { listOf(it.file, it.accelerators.map { one -> one.name }) }
}

/** Calls one of the device's questions with an answer that no device here gives. */
internal fun askOne(command: JSONObject): Any? = when (command.getString("what")) {
    "abi" -> requireAbi(command.getJSONArray("abis").run { List(length(), ::getString) })
    else -> requireAndroid(command.getInt("level"))
}

/** Returns what [explained] makes of everything that LiteRT was read to throw. */
internal fun explanations(): Any = listOf(
    UnsatisfiedLinkError("no liblitert_jni.so"),
    ExceptionInInitializerError(UnsatisfiedLinkError("no libLiteRt.so")),
    NoClassDefFoundError("Could not initialize class"),
    IllegalStateException("The handle has been destroyed."),
    IllegalArgumentException("Unknown status code: 7000"),
).map { thrown ->
    try {
        explained("unet.tflite cannot be run", Why.RefusedNetwork) { throw thrown }
    } catch (problem: NoGpu) {
        problem.message
    }
}
