/** Networks that run in the process that asks: inputs go out as a line, the outputs come back as one. */
package dev.msd.runtime

import org.json.JSONObject
import java.io.File

internal class Served(private val file: ModelFile) : Network {
    override fun run(inputs: Map<String, Tensor>): Map<String, FloatArray> {
        val values = inputs.mapValues { (_, value) ->
            if (value is Tensor.Ints) value.values.toList() else sent(value.numbers() as FloatArray)
        }
        println(dumped(mapOf("run" to file.role, "inputs" to values)))
        val outputs = JSONObject(readln())
        return file.outputs.associate { it.name to floats(outputs.getString(it.name)) }
    }

    override fun close() = Unit
}

/** Generates one image; the networks' owner answers on standard input meanwhile. */
internal fun generateServed(command: JSONObject): Any {
    val manifest = manifest(command)
    val tokenizers = ClipTokenizer.openAll(manifest, File(command.getString("folder")))
    return Pipeline(manifest, tokenizers, ::Served).use { outcome { it.start(command.request()).await() } }
}
