"""Rules that fuse TFLite's operators into those of msd.gpu.kinds, which exist from here on."""

from msd.gpu.kinds import define_kinds

define_kinds()
