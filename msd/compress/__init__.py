"""Compression: fewer bits and fewer channels.

In: a graph with its weights, a recipe (`encoding`), inputs gathered from real denoising (`calibration`). Out:
how each weight is stored, rounded so that errors cancel (`rounding`), and graphs without their least
important channels (`pruning`).

Imports: bounds, bundle, errors, files, graph, models, run, tensor_spec.
"""
