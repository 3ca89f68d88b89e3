"""Models: what each kind is made of, as data, and its networks.

In: a checkpoint's configurations. Out: families with their components and calls (`families`), Keras networks
and their traced structures, and the demo checkpoint (`demo`).

Imports: bounds, errors, files, tensor_spec.
"""
