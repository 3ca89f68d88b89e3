"""Running: .tflite files on the CPU, a GPU or a phone, and a bundle's files from a prompt to an image.

In: a file and named arrays (`runners`), or a bundle and a prompt (`runtime`). Out: named arrays, an image.
The pipeline interprets the calls of the bundle's manifest and knows no network by name.

Imports: bounds, bundle, errors, files, gpu, graph, models, tensor_spec.
"""
