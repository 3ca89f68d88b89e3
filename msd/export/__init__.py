"""Export: a bundle as a part of an app.

In: a bundle, and a report of its delegation. Out: an Android project, a web page, or files for other
platforms; each with the calls that its own library interprets.

Imports: bounds, bundle, errors, files, gpu, graph, measure, models, run, tensor_spec.
"""
