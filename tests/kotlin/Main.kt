/** Answers each line of input, a JSON command, with a line: `{"ok": …}` or `{"error": …, "message": …}`. */
package dev.msd.runtime

import org.json.JSONObject
import java.io.File
import java.lang.management.ManagementFactory
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.security.MessageDigest
import java.util.Base64

private val COMMANDS: Map<String, (JSONObject) -> Any?> = mapOf(
    "manifest" to { summary(manifest(it)) },
    "schedules" to ::schedules,
    "trajectory" to ::trajectory,
    "tokens" to ::tokens,
    "kinds" to { kinds() },
    "lowercase" to { lowered() },
    "noise" to { sent(noise(it.getLong("seed"), it.getInt("size"), it.getInt("step"))) },
    "noise hash" to { hash(noise(it.getLong("seed"), it.getInt("size"), it.getInt("step"))) },
    "ziggurat" to { listOf(sent(Ziggurat.WIDTH), Ziggurat.INSIDE.toList(), sent(Ziggurat.DENSITY)) },
    "log1p" to { sent(floats(it.getString("values")).map(::log1p).toFloatArray()) },
    "sinusoids" to ::sinusoids,
    "pixels" to { pixels(floats(it.getString("image"))).toList() },
    "fitted" to ::fittedPhoto,
    "edges" to { manifest(it).edges(numbers(it, "argb")).toList() },
    "paste" to ::pasted,
    "check" to { Verify(File(it.getString("notes"))).check(manifest(it), File(it.getString("folder"))) },
    "generate" to ::generate,
    "remarks" to { pipeline(it, Fakes("")).use { opened -> opened.remarks(it.request()).map(Remark::message) } },
    "generate served" to ::generateServed,
    "cancel compiling" to ::cancelCompiling,
    "coroutines" to ::byCoroutines,
    "spans" to ::spansOf,
    "covered" to ::coveredOf,
    "enlarge" to { enlarge(it, ::Sum) },
    "enlarge served" to { enlarge(it, ::Served) },
    "posterior noise" to { sent(posteriorNoise(it.getLong("seed"), it.getInt("size"), it.getInt("stream"))) },
    "device" to ::askDevice,
    "device question" to ::askOne,
    "explanations" to { explanations() },
    "opening" to ::opening,
    "android" to ::onAndroid,
)

public fun main() {
    for (line in generateSequence(::readlnOrNull)) println(dumped(answer(JSONObject(line))))
}

private fun answer(command: JSONObject): Map<String, Any?> = try {
    mapOf("ok" to COMMANDS.getValue(command.getString("do"))(command).takeUnless { it == Unit })
} catch (problem: RuntimeFailure) {
    mapOf("error" to problem.javaClass.simpleName, "message" to problem.message)
} catch (problem: Throwable) {
    mapOf("error" to "unexpected", "message" to problem.stackTraceToString())
}

internal fun dumped(value: Any?): String = when (value) {
    is Map<*, *> -> value.entries.joinToString(",", "{", "}") { quoted(it.key as String) + ":" + dumped(it.value) }
    is List<*> -> value.joinToString(",", "[", "]", transform = ::dumped)
    is String -> quoted(value)
    else -> value.toString()
}

/** Returns a string of JSON in ASCII, whatever the encoding of the output. */
private fun quoted(text: String): String = buildString {
    for (c in JSONObject.quote(text)) if (c in ' '..'~') append(c) else append("\\u%04x".format(c.code))
}

internal fun manifest(command: JSONObject) = Manifest.open(File(command.getString("folder")))

/** Fits a photo whose colours are sent as 32 bits each. */
private fun fittedPhoto(command: JSONObject): Any {
    val bytes = Base64.getDecoder().decode(command.getString("argb"))
    val colors = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer()
    val photo = object : Photo {
        override val width = command.getInt("width")
        override val height = command.getInt("height")

        override fun row(y: Int, left: Int, into: IntArray) {
            for (i in into.indices) into[i] = colors.get(y * width + left + i)
        }
    }
    return manifest(command).fitted(photo).toList()
}

/** Pastes what a mask keeps over a generated image, both with a colour per pixel. */
private fun pasted(command: JSONObject): Any {
    val repaint = numbers(command, "mask").run { BooleanArray(size) { get(it) == 1 } }
    val kept = InitialImage(numbers(command, "kept"), 1.0, repaint)
    return kept.paste(numbers(command, "generated"), command.getInt("width")).toList()
}

private fun numbers(command: JSONObject, name: String) = command.getJSONArray(name).run { IntArray(length(), ::getInt) }

private fun schedules(command: JSONObject): Any =
    manifest(command).schedules.entries.associate { (count, schedule) -> "$count" to table(schedule) }

internal fun sent(values: FloatArray): String = Base64.getEncoder().encodeToString(bytes(values))

private fun hash(values: FloatArray): String =
    MessageDigest.getInstance("SHA-256").digest(bytes(values)).joinToString("") { "%02x".format(it) }

private fun bytes(values: FloatArray): ByteArray =
    ByteBuffer.allocate(4 * values.size).order(ByteOrder.LITTLE_ENDIAN).also { it.asFloatBuffer().put(values) }.array()

internal fun floats(text: String): FloatArray {
    val buffer = ByteBuffer.wrap(Base64.getDecoder().decode(text)).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer()
    return FloatArray(buffer.remaining()).also { buffer.get(it) }
}

private fun summary(manifest: Manifest) = mapOf(
    "model" to manifest.model,
    "files" to manifest.files.map {
        listOf(it.name, it.role, it.bytes, it.sha256, it.signature, it.inputs.map(::port), it.outputs.map(::port))
    },
    "size" to listOf(manifest.height, manifest.width),
    "latent" to manifest.latent.toList(),
    "said" to listOf(manifest.prediction, manifest.scheduler, manifest.precision, manifest.runtime),
    "guidance" to manifest.guidance,
    "calls" to manifest.calls.map { call ->
        listOf(call.component, call.at, call.inputs.map { it.name }, call.outputs.map { listOf(it.value, it.factor) })
    },
)

private fun port(port: Port) = listOf(port.name, port.shape.toList(), port.dtype, port.layout)

private fun table(schedule: Schedule) = mapOf(
    "start" to schedule.start,
    "steps" to schedule.steps.map {
        mapOf(
            "timestep" to it.timestep,
            "numbers" to sent(
                floatArrayOf(
                    it.latent, it.output, it.clean, it.cleanLatent, it.cleanOutput,
                    it.clip ?: Float.POSITIVE_INFINITY, it.saved, it.noise, it.keptLatent, it.keptOutput, it.scale,
                    it.signal, it.sigma, *it.history, *it.save,
                ),
            ),
        )
    },
)

private fun trajectory(command: JSONObject): Any {
    val schedule = manifest(command).schedules.getValue(command.getInt("steps"))
    var latents = floats(command.getString("latents"))
    val outputs = floats(command.getString("outputs"))
    var memory: StepMemory? = null
    schedule.steps.forEachIndexed { i, step ->
        val output = outputs.copyOfRange(i * latents.size, (i + 1) * latents.size)
        val (next, left) = step.apply(latents, output, memory, noise(7, latents.size, i + 1))
        latents = next
        memory = left
    }
    return sent(latents)
}

private fun tokens(command: JSONObject): Any {
    val folder = File(command.getString("folder"))
    val tokenizer = ClipTokenizer.openAll(manifest(command), folder).values.first()
    return command.texts("texts").map { tokenizer.encode(it).toList() }
}

private fun JSONObject.texts(name: String): List<String> = getJSONArray(name).run { List(length(), ::getString) }

/** A letter per code point: of what kind it is, or "-" where this Unicode does not have it. */
private fun kinds(): String = buildString {
    for (c in 0..0x10FFFF) append(if (Character.isDefined(c)) kind(c).name[0] else '-')
}

private fun lowered(): Map<String, String> {
    val changed = (0..0x10FFFF).filter { lowercase(it) != String(Character.toChars(it)) }
    return changed.associate { "$it" to lowercase(it) }
}

private fun sinusoids(command: JSONObject): Any {
    val quantity = command.getString("of")
    val sources = manifest(command).wiring.denoiser.sources
    val source = sources.first { it.kind == "sinusoids" && it.of == quantity }
    return sent(source.sinusoids(command.getDouble("t"), command.getInt("width")))
}

/** Opens a model's manifest and tokenizer; returns how many bytes that allocated on this thread, and the seconds. */
private fun opening(command: JSONObject): Any {
    val folder = File(command.getString("folder"))
    val threads = ManagementFactory.getThreadMXBean() as com.sun.management.ThreadMXBean
    val (before, begun) = threads.currentThreadAllocatedBytes to System.nanoTime()
    ClipTokenizer.openAll(Manifest.open(folder), folder)
    val seconds = (System.nanoTime() - begun) / 1e9
    return mapOf("bytes" to threads.currentThreadAllocatedBytes - before, "seconds" to seconds)
}
