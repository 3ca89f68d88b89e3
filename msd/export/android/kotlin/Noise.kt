package dev.msd.runtime

/**
 * Returns [size] float32 numbers of normal noise: those of NumPy's PCG64 for the same seed, in the order of
 * NHWC memory.
 *
 * Step 0 is what an image begins with; the noise that a scheduler adds after a step has a stream of its own.
 */
public fun noise(seed: Long, size: Int, step: Int = 0): FloatArray {
    if (seed < 0) throw BadRequest("the seed $seed is negative; it should be 0 or more")
    return normal(if (step == 0) words(seed) else words(seed) + words(step.toLong()), size)
}

/** Returns [size] float32 numbers of normal noise for the latents of an encoded image; a seed has several streams. */
internal fun posteriorNoise(seed: Long, size: Int, stream: Int): FloatArray =
    normal(words(seed) + words(0) + words(stream.toLong()), size)

private fun normal(entropy: IntArray, size: Int): FloatArray {
    val normal = Ziggurat(Pcg64(entropy))
    return FloatArray(size) { normal.next() }
}

/** Returns the 32-bit words of a number, the least significant first, without leading zeros. */
private fun words(number: Long): IntArray {
    val high = (number ushr 32).toInt()
    return if (high == 0) intArrayOf(number.toInt()) else intArrayOf(number.toInt(), high)
}

/** Uniform random bits. */
internal fun interface Bits {
    /** Returns the next 32 bits. */
    fun next(): Int
}

/**
 * PCG XSL RR 128/64, seeded and read as NumPy's PCG64: O'Neill, "PCG: A Family of Simple Fast Space-Efficient
 * Statistically Good Algorithms for Random Number Generation" (2014).
 */
internal class Pcg64(entropy: IntArray) : Bits {
    private var high = 0L
    private var low = 0L
    private val stepHigh: Long
    private val stepLow: Long
    private var spare: Int? = null

    init {
        val (first, second, third, fourth) = seedState(entropy)
        stepHigh = (third shl 1) or (fourth ushr 63)
        stepLow = (fourth shl 1) or 1
        advance()
        add(first, second)
        advance()
    }

    /** Returns the lower half of the next 64 bits, then the upper half. */
    override fun next(): Int {
        spare?.let {
            spare = null
            return it
        }
        advance()
        val mixed = java.lang.Long.rotateRight(high xor low, (high ushr 58).toInt())
        spare = (mixed ushr 32).toInt()
        return mixed.toInt()
    }

    /** Makes the state that times the multiplier, plus the increment, in 128 bits. */
    private fun advance() {
        val product = low * MULTIPLIER_LOW
        high = high * MULTIPLIER_LOW + low * MULTIPLIER_HIGH + upperHalf(low, MULTIPLIER_LOW)
        low = product
        add(stepHigh, stepLow)
    }

    private fun add(otherHigh: Long, otherLow: Long) {
        low += otherLow
        high += otherHigh + if (low.toULong() < otherLow.toULong()) 1 else 0
    }

    private companion object {
        const val MULTIPLIER_HIGH = 2549297995355413924L
        const val MULTIPLIER_LOW = 4865540595714422341L

        /** Returns the upper 64 bits of the unsigned product; Math.multiplyHigh is too new for old phones. */
        fun upperHalf(a: Long, b: Long): Long {
            val (aHigh, aLow) = (a ushr 32) to (a and 0xFFFFFFFFL)
            val (bHigh, bLow) = (b ushr 32) to (b and 0xFFFFFFFFL)
            val middle = aHigh * bLow + ((aLow * bLow) ushr 32)
            val other = aLow * bHigh + (middle and 0xFFFFFFFFL)
            return aHigh * bHigh + (middle ushr 32) + (other ushr 32)
        }
    }
}

/** Returns four 64-bit words made of up to four words of entropy: NumPy's SeedSequence, after O'Neill (2015). */
private fun seedState(entropy: IntArray): LongArray {
    val hash = Hash(0x43b0d7e5, 0x931e8875.toInt())
    val pool = IntArray(4) { hash.of(if (it < entropy.size) entropy[it] else 0) }
    for (from in 0..3) for (to in 0..3) if (from != to) pool[to] = mix(pool[to], hash.of(pool[from]))
    val state = Hash(0x8b51f9dd.toInt(), 0x58f38ded)
    val words = IntArray(8) { state.of(pool[it % 4]) }
    return LongArray(4) { (words[2 * it].toLong() and 0xFFFFFFFFL) or (words[2 * it + 1].toLong() shl 32) }
}

private class Hash(private var constant: Int, private val multiplier: Int) {
    fun of(word: Int): Int {
        var value = word xor constant
        constant *= multiplier
        value *= constant
        return value xor (value ushr 16)
    }
}

private fun mix(x: Int, y: Int): Int {
    val value = 0xca01f9dd.toInt() * x - 0x4973f715 * y
    return value xor (value ushr 16)
}
