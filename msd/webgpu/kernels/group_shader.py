"""The pieces of group normalisation's shaders; `msd.webgpu.kernels.normalization` puts them together.

A workgroup is `group` = (chunk of groups, slab of pixels, image). Moments are vectors (high, low,
square, count): the mean is high + low, and square is the sum of squared differences to it. After FINISH,
`moments` has those of each group of the chunk, after DEVIATIONS 1 / deviation in place of square.
"""

from __future__ import annotations

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
      for (var i = lane; i < end - first; i += lanes) {
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
"""Sums a slab; then eight invocations of each group join every eighth channel into `parts`."""

JOIN_SLABS = """
  {
    let g = group.x * p.held + t / 8u;
    var joined = vec4<f32>(0.0);
    if (t / 8u < p.held && g < p.groups && t % 8u < p.slabs) {
      let from_slab = (group.z * p.groups + g) * p.slabs;
      let reference = slabs[from_slab + t % 8u];
      for (var i = t % 8u; i < p.slabs; i += 8u) {
        let part = slabs[from_slab + i];
        let d = (part.x - reference.x) + (part.y - reference.y);
        joined += vec4<f32>(0.0, part.w * d, part.z + part.w * d * d, part.w);
      }
      let d = joined.y / joined.w;
      joined = vec4<f32>(reference.x, reference.y + d, joined.z - joined.y * d, joined.w);
    }
    parts[t] = joined;
  }
"""
"""Eight invocations of each group join every eighth slab into `parts`."""

FINISH = """
  workgroupBarrier();
  if (t < p.held) {
    let reference = parts[t * 8u];
    var joined = vec4<f32>(0.0);
    for (var i = t * 8u; i < t * 8u + 8u; i++) {
      let part = parts[i];
      let d = (part.x - reference.x) + (part.y - reference.y);
      joined += vec4<f32>(0.0, part.w * d, part.z + part.w * d * d, part.w);
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
        for (var i = first + t / p.across; i < end; i += lanes) {
          let at = (group.z * p.pixels + i) * p.stride + c;
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
