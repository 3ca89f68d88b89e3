/** Answers each line of input, a JSON command, with a line: `{"ok": …}` or `{"error": …, "message": …}`. */
package dev.msd.runtime

import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.security.MessageDigest
import java.util.Base64

private val COMMANDS: Map<String, (Members) -> Any?> = mapOf(
    "json" to { Json.parse(it.text("text")) },
    "manifest" to { summary(manifest(it)) },
    "schedules" to ::schedules,
    "trajectory" to ::trajectory,
    "tokens" to ::tokens,
    "kinds" to { kinds() },
    "lowercase" to { lowered() },
    "noise" to { sent(noise(it.whole("seed"), it.int("size"), it.int("step"))) },
    "noise hash" to { hash(noise(it.whole("seed"), it.int("size"), it.int("step"))) },
    "ziggurat" to { listOf(sent(Ziggurat.WIDTH), Ziggurat.INSIDE.toList(), sent(Ziggurat.DENSITY)) },
    "log1p" to { sent(floats(it.text("values")).map(::log1p).toFloatArray()) },
    "sinusoids" to ::sinusoids,
    "pixels" to { pixels(floats(it.text("image"))).toList() },
    "check" to { Verify(File(it.text("notes"))).check(manifest(it), File(it.text("folder"))) },
    "install" to ::install,
    "draw" to ::draw,
    "draw served" to ::drawServed,
    "android" to ::onAndroid,
)

public fun main() {
    for (line in generateSequence(::readlnOrNull)) println(dumped(answer(Members(Json.parse(line), "command"))))
}

private fun answer(command: Members): Map<String, Any?> = try {
    mapOf("ok" to COMMANDS.getValue(command.text("do"))(command).takeUnless { it == Unit })
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

internal fun manifest(command: Members) = Manifest.open(File(command.text("folder")))

private fun schedules(command: Members): Any =
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
                    it.clip ?: Float.POSITIVE_INFINITY, it.previous, it.noise, it.scale,
                ),
            ),
        )
    },
)

private fun trajectory(command: Members): Any {
    val schedule = manifest(command).schedules.getValue(command.int("steps"))
    var latents = floats(command.text("latents"))
    val outputs = floats(command.text("outputs"))
    var clean: FloatArray? = null
    schedule.steps.forEachIndexed { i, step ->
        val output = outputs.copyOfRange(i * latents.size, (i + 1) * latents.size)
        val (next, cleaned) = step.apply(latents, output, clean, noise(7, latents.size, i + 1))
        latents = next
        clean = cleaned
    }
    return sent(latents)
}

private fun tokens(command: Members): Any {
    val folder = File(command.text("folder"))
    val tokenizer = ClipTokenizer.open(manifest(command), folder)
    return command.texts("texts").map { tokenizer.encode(it).toList() }
}

private fun Members.texts(name: String): List<String> = children(name).map { it.text("text") }

/** A letter per code point: of what kind it is, or "-" where this Unicode does not have it. */
private fun kinds(): String = buildString {
    for (c in 0..0x10FFFF) append(if (Character.isDefined(c)) kind(c).name[0] else '-')
}

private fun lowered(): Map<String, String> {
    val changed = (0..0x10FFFF).filter { lowercase(it) != String(Character.toChars(it)) }
    return changed.associate { "$it" to lowercase(it) }
}

private fun sinusoids(command: Members): Any {
    val manifest = manifest(command)
    val which = if (command.flag("guidance")) manifest.guidanceEmbedding else manifest.timestep
    return sent(which!!.of(command.number("t")))
}

private fun install(command: Members): Any {
    val (from, folder) = File(command.text("from")) to File(command.text("folder"))
    val opened = ArrayList<String>()
    val verify = Verify(File(command.text("notes"))) { command.whole("free") }
    verify.install(Manifest.open(from), folder) { name ->
        opened += name
        File(from, name).inputStream()
    }
    return opened
}
