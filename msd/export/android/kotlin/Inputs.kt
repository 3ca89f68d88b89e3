package dev.msd.runtime

/** What calls have computed, by the names of values. */
internal typealias Values = Map<String, FloatArray>

/** What the inputs of a call can be made of, for one row. */
internal class Given(
    val manifest: Manifest,
    val tokens: Map<String, IntArray> = emptyMap(),
    val latent: FloatArray = FloatArray(0),
    val scale: Float = 1f,
    val pixels: Values = emptyMap(),
    val values: Values = emptyMap(),
    val numbers: Numbers = Numbers(0.0, 0.0, 0, 0),
    val hints: Values = emptyMap(),
    val scales: Values = emptyMap(),
)

/** Returns the inputs of a call that are the same for every row: those of numbers alone. */
internal fun Call.shared(file: ModelFile, given: Given): Map<String, FloatArray> =
    inputs.filter(Input::isCounted).associate { it.name to (it.of(file, given) as Tensor.Floats).values }

/** Returns the other inputs of a call, for one row. */
internal fun Call.row(file: ModelFile, given: Given): Map<String, Tensor> =
    inputs.filterNot(Input::isCounted).associate { it.name to it.of(file, given) }

private val Input.isCounted: Boolean get() = sources.all { it.kind == "numbers" || it.kind == "sinusoids" }

private fun Input.of(file: ModelFile, given: Given): Tensor {
    val port = file.input(name) ?: throw BadManifest("$name is no input of ${file.name}")
    val single = sources.singleOrNull()
    if (single?.kind == "tokens") return Tensor.Ints(given.tokens.getValue(single.of))
    if (summed) return Tensor.Floats(sum(port, given.values))
    val parts = sources.map { it.of(port, sources.size, given) }
    return Tensor.Floats(parts.singleOrNull() ?: joinedAlong(parts, port.shape, axis))
}

private fun Source.of(port: Port, among: Int, given: Given): FloatArray {
    val found = when (kind) {
        "latent" -> if (scaled) FloatArray(given.latent.size) { given.scale * given.latent[it] } else given.latent
        "pixels" -> given.pixels[of]?.let { given.manifest.atCells(it, port.shape) }
        // A network that predicts runs without the pictures, and steers by nothing.
        "hint" -> given.hints[of] ?: port.zeros()
        "scales" -> given.scales[of] ?: port.zeros()
        "value" -> given.values[of]
        "numbers", "sinusoids" -> input(port.shape.last() / among, given.numbers)
        else -> null
    }
    return found ?: throw BadManifest("${port.name} takes $kind $of, which is not there")
}

/** Returns the sum of those values that have been computed, for one row of a port. */
private fun Input.sum(port: Port, values: Values): FloatArray {
    val total = port.zeros()
    for (value in sources.mapNotNull { values[it.of] }) {
        for (i in total.indices) total[i] += value[i]
    }
    return total
}

/** Returns zeros for one row of a port. */
private fun Port.zeros(): FloatArray = FloatArray(shape.drop(1).fold(1, Int::times))

/** Returns the pixel at the top left of each of the rows and columns of an NHWC [shape]. */
internal fun Manifest.atCells(pixels: FloatArray, shape: IntArray): FloatArray {
    val (rows, columns) = shape[1] to shape[2]
    if (rows == height && columns == width) return pixels
    val channels = pixels.size / (height * width)
    val (down, across) = height / rows to width / columns
    return FloatArray(rows * columns * channels) {
        val (cell, channel) = it / channels to it % channels
        pixels[(cell / columns * down * width + cell % columns * across) * channels + channel]
    }
}

/** Returns arrays of one row joined along an axis of the [shape] that they make together. */
internal fun joinedAlong(parts: List<FloatArray>, shape: IntArray, axis: Int): FloatArray {
    val end = if (axis < 0) shape.size + axis else axis
    val outer = (1 until end).fold(1) { product, i -> product * shape[i] }
    val whole = FloatArray(parts.sumOf(FloatArray::size))
    var at = 0
    for (i in 0 until outer) {
        for (part in parts) {
            val inner = part.size / outer
            part.copyInto(whole, at, i * inner, (i + 1) * inner)
            at += inner
        }
    }
    return whole
}
