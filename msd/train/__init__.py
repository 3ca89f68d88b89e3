"""Training: students of a checkpoint, by PyTorch.

In: a checkpoint and prompts. Out: a checkpoint that needs fewer steps, or that wins back what compression
lost (`distill`); its networks as a backend (`pytorch`); two models' images of the same prompts
(`comparison`).

Imports: bundle, compress, conversion, errors, files, graph, measure, models, run, tensor_spec.
"""
