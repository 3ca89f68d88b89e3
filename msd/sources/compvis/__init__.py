"""Stable Diffusion in one file, as CompVis and Stability AI lay it out: its names, and what shapes say."""
