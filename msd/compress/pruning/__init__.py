"""Structured pruning: remove channels, hidden units and heads from a graph before its weights are read.

`channels` follows a channel through a graph, `units` finds the units that can be removed, `removal` removes
them, `criteria` ranks them by importance, `budget` decides how much of each to remove, and `refit` refits the
remaining weights by least squares.
"""
