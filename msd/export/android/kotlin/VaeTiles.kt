package dev.msd.runtime

/** The kinds of outputs that are latents, which an encoder computes of an image. */
private val LATENTS = listOf("moments", "latents")

/** Neighbours share this part of a tile, as in diffusers. */
private const val QUARTER = 4

/** Whether a call encodes an image. */
internal val Call.encodes: Boolean get() = outputs.any { it.kind in LATENTS }

/**
 * Returns the image of [latents], in tiles where the decoder takes fewer rows or columns, as `msd.run.runtime.decode`
 * does; [run] runs it.
 */
internal fun Manifest.decoded(call: Call, latents: FloatArray, run: (Map<String, Tensor>) -> Values): FloatArray {
    val (file, tensor) = file(call.component) to checkNotNull(call.computes("image")).tensor
    val name = call.inputs[0].name
    val (_, height, width) = latent
    val given = file.inputs.shapeOf(name)
    if (!isTile(given, height, width)) {
        return run(call.row(file, Given(this, latent = latents))).getValue(tensor)
    }
    val made = file.outputs.shapeOf(tensor)
    return inTiles(Tiled(height, width, made[1] / given[1], made[3]), given[1], given[2]) { top, left ->
        run(mapOf(name to cut(latents, width, top, left, given))).getValue(tensor)
    }
}

/**
 * Returns what an encoder computes of an [image], by tensors, in tiles where it takes fewer pixels, as
 * `msd.run.runtime.image_encoder` does; [run] runs it.
 */
internal fun Manifest.encoded(call: Call, image: FloatArray, run: (Map<String, Tensor>) -> Values): Values {
    val (file, name) = file(call.component) to call.inputs[0].name
    val given = file.inputs.shapeOf(name)
    if (!isTile(given, height, width)) return run(mapOf(name to Tensor.Floats(image)))
    return call.outputs.associate { output ->
        val (_, rows, columns, channels) = file.outputs.shapeOf(output.tensor)
        val cell = given[1] / rows
        val whole = Tiled(height / cell, width / cell, 1, channels)
        output.tensor to inTiles(whole, rows, columns) { top, left ->
            run(mapOf(name to cut(image, width, top * cell, left * cell, given))).getValue(output.tensor)
        }
    }
}

private fun isTile(shape: IntArray, height: Int, width: Int): Boolean {
    val (rows, columns) = shape[1] to shape[2]
    return rows <= height && columns <= width && (rows < height || columns < width)
}

/** Returns all rows of what [run] computes of tiles of [rows] by [columns] cells. */
private fun inTiles(whole: Tiled, rows: Int, columns: Int, run: (Int, Int) -> FloatArray): FloatArray =
    joined(Tiling(rows, columns, minOf(rows, columns) / QUARTER).joinedRows(whole, run).toList())

/** Returns a tile of the [shape] of an array (NHWC) whose rows have [width] cells. */
private fun cut(from: FloatArray, width: Int, top: Int, left: Int, shape: IntArray): Tensor {
    val (_, rows, columns, channels) = shape
    val (line, tile) = columns * channels to FloatArray(rows * columns * channels)
    for (row in 0 until rows) {
        val first = ((top + row) * width + left) * channels
        from.copyInto(tile, row * line, first, first + line)
    }
    return Tensor.Floats(tile)
}

private fun List<Port>.shapeOf(name: String): IntArray =
    find { it.name == name }?.shape ?: throw BadManifest("the manifest calls a network for $name, which it lacks")
