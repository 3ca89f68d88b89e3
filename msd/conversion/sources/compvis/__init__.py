"""Stable Diffusion in one file in the layout of CompVis and Stability AI: names, and settings from shapes."""
