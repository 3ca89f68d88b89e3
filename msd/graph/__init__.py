"""Graphs: what a .tflite file is, what a delegate will do with it, and how rules rewrite it.

In: bytes of .tflite files, rules of graph_rewrites/, descriptions of devices. Out: graphs of operators and
typed tensors (`ir`), files (`tflite`), predictions (`prediction`), rewritten graphs and their ledger
(`rewrite`). Knows neither TensorFlow nor a model.

Imports: errors, files, tensor_spec.
"""
