/*
 * After s_log1pf.c of FDLIBM, by Ian Lance Taylor, Cygnus Support:
 *
 * Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved.
 *
 * Developed at SunPro, a Sun Microsystems, Inc. business. Permission to use, copy, modify, and distribute this
 * software is freely granted, provided that this notice is preserved.
 */

package dev.msd.runtime

private const val LN2_HIGH = 6.9313812256e-01f
private const val LN2_LOW = 9.0580006145e-06f
private const val SQRT2_FRACTION = 0x3504f7
private val SERIES = floatArrayOf(
    1.4798198640e-01f, 1.5313838422e-01f, 1.8183572590e-01f, 2.2222198546e-01f,
    2.8571429849e-01f, 4.0000000596e-01f, 6.6666668653e-01f,
)

/**
 * Returns ln(1 + x) in float32 for x in (-1, 0], with the rounding errors of the C library under which noise was
 * recorded: the last bit of rare numbers in a normal distribution's tail is one of them.
 */
internal fun log1p(x: Float): Float {
    if (x >= -0.29289338f) return short(x)
    val sum = 1f + x
    val bits = sum.toRawBits()
    var power = (bits shr 23) - 127
    val lost = (if (power > 0) 1f - (sum - x) else x - (sum - 1f)) / sum
    val fraction = bits and 0x7fffff
    val halved = fraction >= SQRT2_FRACTION
    if (halved) power++
    val f = Float.fromBits(fraction or if (halved) 0x3f000000 else 0x3f800000) - 1f
    val small = (if (halved) (0x800000 - fraction) shr 2 else fraction) == 0
    val low = power * LN2_LOW + lost
    val half = 0.5f * f * f
    return when {
        small && f == 0f -> power * LN2_HIGH + low
        small -> power * LN2_HIGH - ((half * (1f - 0.6666667f * f) - low) - f)
        else -> power * LN2_HIGH - ((half - (series(f, half) + low)) - f)
    }
}

private fun short(f: Float): Float {
    val half = 0.5f * f * f
    return f - (half - series(f, half))
}

private fun series(f: Float, half: Float): Float {
    val s = f / (2f + f)
    val z = s * s
    var sum = 0f
    for (term in SERIES) sum = term + z * sum
    return s * (half + z * sum)
}
