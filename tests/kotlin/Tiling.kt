/** Tiles and what is made of them: shares along an axis, and an image that is enlarged. */
package dev.msd.runtime

import org.json.JSONArray
import org.json.JSONObject

/** A network of sums that nothing notes. */
internal class Sum(private val file: ModelFile) : Network {
    override fun run(inputs: Map<String, Tensor>): Map<String, FloatArray> =
        computed(file, inputs.mapValues { it.value.numbers() })

    override fun close() = Unit
}

/** Returns where the tiles begin and their shares, for each list of what `spans` takes. */
internal fun spansOf(command: JSONObject): Any = command.getJSONArray("cases").run {
    List(length()) { getJSONArray(it).ints() }.map { (size, tile, overlap, multiple) ->
        spans(size, tile, overlap, multiple).map { listOf(it.start, sent(it.shares)) }
    }
}

/** Returns how many cells tiles cover, for each list of what `covered` takes. */
internal fun coveredOf(command: JSONObject): Any = command.getJSONArray("cases").run {
    List(length()) { getJSONArray(it).ints() }.map { (size, tile, multiple) -> covered(size, tile, multiple) }
}

/** Enlarges an image of colours with the network that is opened for a file. */
internal fun enlarge(command: JSONObject, open: Opener): Any {
    val (facts, size) = command.getJSONObject("facts").upscalerFacts() to command.getJSONArray("size").ints()
    val image = GeneratedImage(command.getJSONArray("argb").ints(), size[1], size[0], FloatArray(0))
    val (rows, columns) = facts.tiles.rows to facts.tiles.columns
    fun port(name: String, scale: Int) = Port(name, intArrayOf(1, scale * rows, scale * columns, 3), "float32", "NHWC")
    val (inputs, outputs) = listOf(port(facts.input, 1)) to listOf(port(facts.output, facts.scale))
    val file = ModelFile("upscaler.tflite", facts.role, "upscaler", 1, "", "", inputs, outputs)
    val told = ArrayList<List<Int>>()
    val made = facts.enlarged(open.open(file), file, image) { tile, tiles -> told += listOf(tile, tiles) }
    return mapOf("argb" to made.argb.toList(), "size" to listOf(made.height, made.width), "told" to told)
}

private fun JSONArray.ints() = IntArray(length(), ::getInt)
