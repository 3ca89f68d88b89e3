/*
 * After s_log1pf.c of FDLIBM, by Ian Lance Taylor, Cygnus Support:
 *
 * Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved.
 *
 * Developed at SunPro, a Sun Microsystems, Inc. business. Permission to use, copy, modify, and distribute
 * this software is freely granted, provided that this notice is preserved.
 */
const f32 = Math.fround;
const LN2_HIGH = f32(6.9313812256e-1);
const LN2_LOW = f32(9.0580006145e-6);
const TWO_THIRDS = f32(0.6666667);
const SQRT2_FRACTION = 0x3504f7;
const SERIES = Float32Array.of(
  1.479819864e-1, 1.5313838422e-1, 1.818357259e-1, 2.2222198546e-1, 2.8571429849e-1, 4.0000000596e-1,
  6.6666668653e-1,
);
const number = new Float32Array(1);
const bits = new Int32Array(number.buffer);

/**
 * Returns ln(1 + x) in float32 for x in (-1, 0], with the rounding errors of the C library under which noise
 * was recorded: the last bit of rare numbers in a normal distribution's tail is one of them.
 *
 * @param {number} x a float32 number
 * @returns {number} a float32 number
 */
export function log1p(x) {
  if (x >= f32(-0.29289338)) return short(x);
  const sum = f32(1 + x);
  number[0] = sum;
  const fraction = bits[0] & 0x7fffff;
  const halved = fraction >= SQRT2_FRACTION;
  const power = (bits[0] >> 23) - 127 + (halved ? 1 : 0);
  const lost = f32(f32(x - f32(sum - 1)) / sum);
  bits[0] = fraction | (halved ? 0x3f000000 : 0x3f800000);
  const f = f32(number[0] - 1);
  const high = f32(power * LN2_HIGH);
  const low = f32(f32(power * LN2_LOW) + lost);
  const small = (halved ? (0x800000 - fraction) >> 2 : fraction) === 0;
  if (small && f === 0) return f32(high + low);
  const half = f32(f32(0.5 * f) * f);
  if (small) return f32(high - f32(f32(f32(half * f32(1 - f32(TWO_THIRDS * f))) - low) - f));
  return f32(high - f32(f32(half - f32(series(f, half) + low)) - f));
}

/** @param {number} f */
function short(f) {
  const half = f32(f32(0.5 * f) * f);
  return f32(f - f32(half - series(f, half)));
}

/**
 * @param {number} f
 * @param {number} half
 */
function series(f, half) {
  const s = f32(f / f32(2 + f));
  const z = f32(s * s);
  let sum = 0;
  for (const term of SERIES) sum = f32(term + f32(z * sum));
  return f32(s * f32(half + f32(z * sum)));
}
