"""Rules that fuse TFLite's operators into those of msd.webgpu.kinds, which exist from here on."""

from msd.webgpu.kinds import define_kinds

define_kinds()
