"""Measuring: what a delegate makes of a file, how long it takes, and how good its images are.

In: files and bundles. Out: verdicts of the real delegate (`judging`), reports (`report`), latency and memory
(`bench`), the time of each dispatch (`profiling`), the error of each block (`blockwise`), images compared
with golden ones (`regress`).

Imports: bundle, compress, conversion, errors, files, gpu, graph, models, run.
"""
