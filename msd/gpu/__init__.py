"""A compiler from graphs to WebGPU programs, their kernels in WGSL, and the sessions that run them.

In: a .tflite file's graph and what a GPU offers. Out: dispatches of WGSL and packed constants, run here or by
the exported page.

Imports: errors, files, graph.
"""
