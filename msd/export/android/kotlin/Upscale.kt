package dev.msd.runtime

/**
 * How the network [role] enlarges an image [scale] times along each side, a tile at a time: [input] and [output] are
 * its tensors, RGB in [-1, 1], and [tiles] are in pixels of the image as it was.
 */
public class UpscalerFacts(
    public val role: String,
    public val input: String,
    public val output: String,
    public val scale: Int,
    public val tiles: Tiling,
)

/** Throws [BadManifest] for an upscaler whose tiles its network does not take. */
internal fun Manifest.requireTiles(upscaler: UpscalerFacts) {
    val (file, scale) = file(upscaler.role) to upscaler.scale
    val (rows, columns) = upscaler.tiles.rows to upscaler.tiles.columns
    val made = file.outputs.find { it.name == upscaler.output }
    val fits = file.input(upscaler.input)?.shape.contentEquals(intArrayOf(1, rows, columns, 3)) &&
        made?.shape.contentEquals(intArrayOf(1, scale * rows, scale * columns, 3))
    val (overlap, multiple) = upscaler.tiles.overlap to upscaler.tiles.multiple
    val possible = overlap in 0 until minOf(rows, columns) && multiple > 0 &&
        rows % multiple == 0 && columns % multiple == 0
    if (!fits || !possible) throw BadManifest("the manifest has tiles of an upscaler that do not fit ${file.name}")
}

/** Returns the upscaler that a request asks for, or null; throws [BadRequest] where the model has none such. */
internal fun Manifest.upscalerFor(request: Request): UpscalerFacts? {
    val wanted = request.upscale ?: return null
    val facts = upscaler ?: throw BadRequest("this model has no upscaler")
    if (wanted == facts.scale) return facts
    throw BadRequest("the upscaler of this model enlarges ${facts.scale} times, not $wanted")
}

/**
 * Returns an image enlarged by [network], which [file] is of, as `msd.run.runtime.upscale` does: beyond its edges are
 * its last pixels. [onTile] is told which tile begins, of how many, and may end it; throws [NoImage].
 */
internal fun UpscalerFacts.enlarged(
    network: Network,
    file: ModelFile,
    image: GeneratedImage,
    onTile: (Int, Int) -> Unit,
): GeneratedImage {
    val rows = covered(image.height, tiles.rows, tiles.multiple)
    val columns = covered(image.width, tiles.columns, tiles.multiple)
    val whole = Tiled(rows, columns, scale, 3)
    val (width, height) = scale * image.width to scale * image.height
    val (argb, count) = IntArray(width * height) to tiles.count(whole)
    var (begun, top) = 0 to 0
    val parts = tiles.joinedRows(whole) { first, left ->
        onTile(++begun, count)
        val tile = Tensor.Floats(rgb(tiles.cut(image, first, left)))
        val outputs = network.rows(file, listOf(mapOf(input to tile)))[0]
        requireFinite(outputs.getValue(output), "the image of the ${file.title}")
    }
    for (part in parts) {
        val (drawn, across) = pixels(part) to scale * columns
        for (row in 0 until minOf(drawn.size / across, height - top)) {
            drawn.copyInto(argb, (top + row) * width, row * across, row * across + width)
        }
        top += drawn.size / across
    }
    return GeneratedImage(argb, width, height, image.latents)
}

/** Returns the colours of a tile of an image. */
private fun Tiling.cut(image: GeneratedImage, top: Int, left: Int) = IntArray(rows * columns) {
    val (y, x) = top + it / columns to left + it % columns
    image.argb[minOf(y, image.height - 1) * image.width + minOf(x, image.width - 1)]
}
