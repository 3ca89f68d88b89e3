"""Conversion: from a checkpoint to a bundle.

In: a checkpoint of any format, read lazily (`sources`), and the options of a conversion. Out: .tflite files,
their manifest, and what was reused of earlier results; graphs of several image sizes in one file (`sizes`).

Imports: bounds, bundle, compress, errors, files, graph, models, run.
"""
