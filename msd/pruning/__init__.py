"""Structured pruning: whole channels, hidden units and heads taken out of a graph, weights still described.

`channels` follows a channel through a graph, `units` finds what can go, `removal` takes it out, `criteria`
says what to miss least, `budget` how much where, and `refit` makes good what least squares can.
"""
