"""keras-cv 0.9's Stable Diffusion: its .h5 files, the order of the weights in them, and its own networks."""

from msd.conversion.sources.keras_cv.folder import open_folder, weight_files

__all__ = ["open_folder", "weight_files"]
