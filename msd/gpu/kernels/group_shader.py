"""The pieces of group normalisation's shaders; `msd.gpu.kernels.normalization` puts them together.

A workgroup is `group` = (chunk of groups, slab of pixels, image). Moments are vectors (high, low,
square, count): the mean is high + low, and square is the sum of squared differences to it. After FINISH,
`moments` has those of each group of the chunk, after DEVIATIONS 1 / deviation in place of square.
"""

from __future__ import annotations

from msd.gpu.wgsl import fill

MOVED = """
fn moved(part: vec4<f32>, reference: vec4<f32>) -> vec4<f32> {
  let d = (part.x - reference.x) + (part.y - reference.y);
  return vec4<f32>(0.0, part.w * d, part.z + part.w * d * d, part.w);
}
"""
"""The sums of a part's differences to another mean: (0, sum, square, count)."""

MEASURE = """
  let columns = min(p.columns, p.stride - group.x * p.columns);
  let column = t % p.across;
  let lane = t / p.across;
  let lanes = 256u / p.across;
  let first = group.y * p.slab;
  let end = min(p.pixels, first + p.slab);
  // All invocations of a column take differences to its first value in the slab.
  let start = (group.z * p.pixels + first) * p.stride + group.x * p.columns;
  let high = V(x[start + min(column, columns - 1u)]);
  var sum = V(0.0);
  var square = V(0.0);
  if (lane < lanes) {
    for (var c = column; c < columns; c += p.across) {
      var i = lane;
      for (; i + 3u * lanes < end - first; i += 4u * lanes) {
        let d0 = V(x[start + i * p.stride + c]) - high;
        let d1 = V(x[start + (i + lanes) * p.stride + c]) - high;
        let d2 = V(x[start + (i + 2u * lanes) * p.stride + c]) - high;
        let d3 = V(x[start + (i + 3u * lanes) * p.stride + c]) - high;
        sum += (d0 + d1) + (d2 + d3);
        square += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);
      }
      for (; i < end - first; i += lanes) {
        let d = V(x[start + i * p.stride + c]) - high;
        sum += d;
        square += d * d;
      }
    }
  }
  sums[t] = sum;
  squares[t] = square;
  workgroupBarrier();
  if (t < p.across) {
    for (var other = 1u; other < lanes; other++) {
      sum += sums[other * p.across + t];
      square += squares[other * p.across + t];
    }
    // A single group may have more columns than invocations: then each has summed several.
    let repeats = (columns + p.across - 1u - min(t, columns)) / p.across;
    let count = f32((end - first) * max(repeats, 1u));
    let low = sum / count;
    sums[t] = low;
    squares[t] = square - sum * low;
  }
  workgroupBarrier();
  {
    let g = t / 8u;
    var joined = vec4<f32>(0.0);
    if (g < p.held && t % 8u < p.slots && g * p.each < columns * (p.channels / p.stride)) {
      let from_slot = g * p.slots + t % 8u;
      var reference = vec2<f32>(0.0);
      for (var slot = from_slot; slot < (g + 1u) * p.slots; slot += 8u) {
        let place = $slot_vector;
        let repeats = (columns + p.across - 1u - min(place, columns)) / p.across;
        let count = f32((end - first) * max(repeats, 1u));
        let mean = vec2<f32>(f32(x[start + place]$component), sums[place]$component);
        if (slot == from_slot) { reference = mean; }
        let d = (mean.x - reference.x) + (mean.y - reference.y);
        joined += vec4<f32>(0.0, count * d, squares[place]$component + count * d * d, count);
      }
      let d = joined.y / joined.w;
      joined = vec4<f32>(reference.x, reference.y + d, joined.z - joined.y * d, joined.w);
    }
    parts[t] = joined;
  }
"""
"""Sums a slab; then eight invocations of each group join every eighth channel into `parts`.

Four pixels are read before the first is summed: a compiler does not unroll a loop whose end it does not know.
On an H100, a norm of 32x32 pixels took 21 us when each read was waited for, and takes 17.
"""

_JOIN = """
  {
    let g = $group;
    var joined = vec4<f32>(0.0);
    if ($held && g < p.groups && $lane < p.slabs) {
      let from_slab = (group.z * p.groups + g) * p.slabs;
      let reference = slabs[from_slab + $lane];
      var i = $lane;
      for (; i + 3u * $lanes < p.slabs; i += 4u * $lanes) {
        let part0 = slabs[from_slab + i];
        let part1 = slabs[from_slab + i + $lanes];
        let part2 = slabs[from_slab + i + 2u * $lanes];
        let part3 = slabs[from_slab + i + 3u * $lanes];
        joined += moved(part0, reference) + moved(part1, reference);
        joined += moved(part2, reference) + moved(part3, reference);
      }
      for (; i < p.slabs; i += $lanes) {
        joined += moved(slabs[from_slab + i], reference);
      }
      let d = joined.y / joined.w;
      joined = vec4<f32>(reference.x, reference.y + d, joined.z - joined.y * d, joined.w);
    }
    parts[t] = joined;
  }
"""

JOIN_SLABS = fill(_JOIN, group="group.x * p.held + t / 8u", held="t / 8u < p.held", lane="t % 8u", lanes="8u")
"""Eight invocations of each group join every eighth slab into `parts`."""

JOIN_CHANNELS = (
    fill(_JOIN, group="group.x", held="true", lane="t", lanes="256u")
    + """
  workgroupBarrier();
  if (t < 8u) {
    let reference = parts[t];
    var joined = vec4<f32>(0.0);
    for (var i = t; i < 256u; i += 8u) {
      joined += moved(parts[i], reference);
    }
    let d = joined.y / max(joined.w, 1.0);
    parts[t] = vec4<f32>(reference.x, reference.y + d, joined.z - joined.y * d, joined.w);
  }
"""
)
"""All invocations join the moments of one group's channels, then eight what they have, into `parts`."""

FINISH = """
  workgroupBarrier();
  if (t < p.held) {
    let reference = parts[t * 8u];
    var joined = vec4<f32>(0.0);
    for (var i = t * 8u; i < t * 8u + 8u; i++) {
      joined += moved(parts[i], reference);
    }
    let count = max(joined.w, 1.0);
    let d = joined.y / count;
    let square = max(joined.z - joined.y * d, 0.0);
    moments[t] = vec4<f32>(reference.x, reference.y + d, square, joined.w);
  }
  workgroupBarrier();
"""
"""Joins the eight parts of each group. Parts without elements have count 0 and change nothing."""

WRITE_PART = """
  let g = group.x * p.held + t;
  if (t < p.held && g < p.groups) {
    y[(group.z * p.groups + g) * p.slabs + group.y] = moments[t];
  }
"""

DEVIATIONS = """
  if (t < p.held) {
    let m = moments[t];
    moments[t].z = 1.0 / sqrt(m.z / max(m.w, 1.0) + p.epsilon);
  }
  workgroupBarrier();
"""

APPLY = (
    DEVIATIONS
    + """
  {
    let columns = min(p.columns, p.stride - group.x * p.columns);
    let lanes = 256u / p.across;
    let first = group.y * p.slab;
    let end = min(p.pixels, first + p.slab);
    if (t / p.across < lanes) {
      for (var c0 = t % p.across; c0 < columns; c0 += p.across) {
        let c = group.x * p.columns + c0;
        var high = V(0.0);
        var low = V(0.0);
        var factor = V(0.0);
        $each_component
        factor *= $scale;
        let shifted = $shift - low * factor;
        var at = (group.z * p.pixels + first + t / p.across) * p.stride + c;
        let past = (group.z * p.pixels + end) * p.stride;
        let step = lanes * p.stride;
        for (; at + 3u * step < past; at += 4u * step) {
          let x0 = V(x[at]);
          let x1 = V(x[at + step]);
          let x2 = V(x[at + 2u * step]);
          let x3 = V(x[at + 3u * step]);
          y[at] = Y(activate((x0 - high) * factor + shifted));
          y[at + step] = Y(activate((x1 - high) * factor + shifted));
          y[at + 2u * step] = Y(activate((x2 - high) * factor + shifted));
          y[at + 3u * step] = Y(activate((x3 - high) * factor + shifted));
        }
        for (; at < past; at += step) {
          y[at] = Y(activate((V(x[at]) - high) * factor + shifted));
        }
      }
    }
  }
"""
)

SCALES = (
    DEVIATIONS
    + """
  for (var c0 = t; c0 < p.held * p.each; c0 += 256u) {
    let c = group.x * p.held * p.each + c0;
    if (c < p.channels) {
      let m = moments[c0 / p.each];
      let factor = m.z * $scale;
      y[2u * group.z * p.channels + c] = factor;
      y[(2u * group.z + 1u) * p.channels + c] = $shift - (m.x + m.y) * factor;
    }
  }
"""
)
