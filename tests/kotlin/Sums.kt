/** Networks that are a few sums, the same as in tests/app_bundles.py. */
package dev.msd.runtime

internal fun computed(file: ModelFile, inputs: Map<String, Any?>): Map<String, FloatArray> =
    mapOf(file.outputs[0].name to compute(file, inputs))

private fun compute(file: ModelFile, inputs: Map<String, Any?>): FloatArray = when (file.role) {
    "text_encoder" -> encode(inputs.getValue("tokens") as IntArray, file.outputs[0].shape.last())
    "unet" -> predict(inputs.mapValues { it.value as FloatArray }, file.outputs[0])
    "vae_encoder" -> encodeImage(inputs.getValue("image") as FloatArray, file.outputs[0].shape)
    "upscaler" -> enlarge(inputs.getValue("image") as FloatArray, file)
    else -> decode(inputs.getValue("latent") as FloatArray, file.outputs[0].shape)
}

private fun encode(tokens: IntArray, width: Int) = FloatArray(tokens.size * width) {
    val (i, c) = it / width to it % width
    (((tokens[i] * (c + 1) * 31 + i % 77 * 7) % 97) / 97.0 - 0.5).toFloat()
}

private fun predict(inputs: Map<String, FloatArray>, output: Port): FloatArray {
    val batch = output.shape[0]
    val latent = seen(inputs.getValue("latent"), output.size)
    val context = inputs.getValue("context")
    val shift = (inputs - "latent" - "context").values.sumOf { told(it, batch) }
    val (row, text) = latent.size / batch to context.size / batch
    return FloatArray(latent.size) {
        val (b, i) = it / row to it % row
        var sum = 0.0
        for (j in 0 until text) sum += context[b * text + j] * (j % 5 + 1)
        (0.6 * latent[it] + 0.3 * latent[b * row + (i + 1) % row] + sum / text + shift).toFloat()
    }
}

/** Returns the latents, to which a mask and the masked image are added where the network takes them. */
private fun seen(latent: FloatArray, size: Int): DoubleArray {
    val channels = latent.size / (size / 4)
    return DoubleArray(size) {
        val cell = it / 4 * channels
        val own = latent[cell + it % 4].toDouble()
        if (channels == 4) own else own + 0.1 * latent[cell + 4] + 0.05 * latent[cell + 5 + it % 4]
    }
}

/** Returns what a timestep or an embedding, the same in every row, adds. */
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

private fun encodeImage(image: FloatArray, shape: IntArray): FloatArray {
    val (rows, columns) = shape[1] to shape[2]
    return FloatArray(rows * columns * 8) {
        val (cell, channel) = it / 8 to it % 8
        val corner = image[(cell / columns * 8 * columns * 8 + cell % columns * 8) * 3 + channel % 4 % 3].toDouble()
        (if (channel < 4) 0.7 * corner + 0.1 * channel else 0.3 * corner - 2).toFloat()
    }
}

/** Repeats each pixel, and adds something that depends on its place in the tile. */
private fun enlarge(image: FloatArray, file: ModelFile): FloatArray {
    val (given, made) = file.inputs[0].shape to file.outputs[0].shape
    val scale = made[1] / given[1]
    return FloatArray(made[1] * made[2] * 3) {
        val (y, x, c) = Triple(it / 3 / made[2], it / 3 % made[2], it % 3)
        val pixel = image[(y / scale * given[2] + x / scale) * 3 + c].toDouble()
        (0.9 * pixel + 0.1 * ((y * 31 + x * 7) % 13 / 13.0)).toFloat()
    }
}

internal fun Tensor.numbers(): Any = when (this) {
    is Tensor.Floats -> values
    is Tensor.Ints -> values
}
