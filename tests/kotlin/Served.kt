/** Networks that run in the process that asks: inputs go out as a line, the output comes back as one. */
package dev.msd.runtime

import org.json.JSONObject
import java.io.File

private class Served(private val file: ModelFile) : Network {
    override fun run(inputs: Map<String, Tensor>): FloatArray {
        val values = inputs.mapValues { (_, value) ->
            if (value is Tensor.Ints) value.values.toList() else sent(value.numbers() as FloatArray)
        }
        println(dumped(mapOf("run" to file.role, "inputs" to values)))
        return floats(readln())
    }

    override fun close() = Unit
}

/** Generates one image; the networks' owner answers on standard input meanwhile. */
internal fun generateServed(command: JSONObject): Any {
    val manifest = manifest(command)
    val tokenizer = ClipTokenizer.open(manifest, File(command.getString("folder")))
    return Pipeline(manifest, tokenizer, ::Served).use { outcome { it.start(command.request()).await() } }
}
