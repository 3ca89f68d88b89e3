package dev.msd.runtime

/** Numbers that go into a network. */
public sealed interface Tensor {
    /** float32 numbers. */
    public class Floats(public val values: FloatArray) : Tensor

    /** int32 numbers. */
    public class Ints(public val values: IntArray) : Tensor
}

/** A network that has been opened: named arrays of exactly the file's sizes in, its outputs by name out. */
public interface Network : AutoCloseable {
    /** Returns all outputs, float32; throws [NoGpu] where it cannot be run. */
    public fun run(inputs: Map<String, Tensor>): Map<String, FloatArray>

    /** Frees it. */
    override fun close()
}

/** Opens the network of a file; throws [NoGpu] where the GPU does not take it. */
public fun interface Opener {
    public fun open(file: ModelFile): Network
}

/**
 * Returns the network's outputs for each of [rows], in as few runs as may be; [shared] inputs are the same for all.
 *
 * Each row has the inputs of one image, as NHWC. Throws [BadManifest] where sizes do not fit [file].
 */
internal fun Network.rows(
    file: ModelFile,
    rows: List<Map<String, Tensor>>,
    shared: Map<String, FloatArray> = emptyMap(),
): List<Map<String, FloatArray>> {
    val names = rows[0].keys + shared.keys
    val known = file.inputs.map(Port::name).toSet()
    if (names != known) throw BadManifest("${file.name} should take ${names.sorted()}, not ${known.sorted()}")
    val batch = file.batch(rows[0])
    val common = shared.mapValues { (name, value) -> file.repeated(name, value) }
    return rows.chunked(batch).flatMap { chunk ->
        val filled = List(batch) { chunk[minOf(it, chunk.size - 1)] }
        val stacked = rows[0].keys.associateWith { name -> stacked(filled.map { it.getValue(name) }) }
        val outputs = run(stacked + common)
        List(chunk.size) { row -> outputs.mapValues { (_, output) -> output.row(row, batch) } }
    }
}

private fun FloatArray.row(row: Int, batch: Int): FloatArray =
    copyOfRange(row * (size / batch), (row + 1) * (size / batch))

private fun ModelFile.port(name: String): Port =
    input(name) ?: throw BadManifest("$name is no input of ${this.name}")

/** Returns how many rows one run takes, on which all inputs must agree. */
private fun ModelFile.batch(row: Map<String, Tensor>): Int {
    val batches = row.map { (name, value) ->
        val (whole, one) = port(name).size to sizeOf(value)
        if (whole % one != 0) misfit(name, whole, one)
        whole / one
    }
    return batches.distinct().singleOrNull()
        ?: throw BadManifest("the inputs of ${this.name} have unlike batches: $batches")
}

private fun sizeOf(tensor: Tensor): Int = when (tensor) {
    is Tensor.Floats -> tensor.values.size
    is Tensor.Ints -> tensor.values.size
}

private fun stacked(parts: List<Tensor>): Tensor = when (parts[0]) {
    is Tensor.Floats -> Tensor.Floats(joined(parts.map { (it as Tensor.Floats).values }))
    is Tensor.Ints -> Tensor.Ints(joined(parts.map { (it as Tensor.Ints).values }))
}

internal fun joined(parts: List<FloatArray>): FloatArray {
    if (parts.size == 1) return parts[0]
    val whole = FloatArray(parts.sumOf(FloatArray::size))
    parts.fold(0) { at, part -> at + part.size.also { part.copyInto(whole, at) } }
    return whole
}

private fun joined(parts: List<IntArray>): IntArray {
    val whole = IntArray(parts.sumOf(IntArray::size))
    parts.fold(0) { at, part -> at + part.size.also { part.copyInto(whole, at) } }
    return whole
}

private fun ModelFile.repeated(name: String, value: FloatArray): Tensor {
    val size = port(name).size
    if (size % value.size != 0) misfit(name, size, value.size)
    return Tensor.Floats(FloatArray(size) { value[it % value.size] })
}

private fun ModelFile.misfit(input: String, whole: Int, row: Int): Nothing =
    throw BadManifest("${this.name} takes $whole numbers as $input, which rows of $row do not fit")
