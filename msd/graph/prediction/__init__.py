"""Predicts from a file alone how a GPU delegate handles a graph: rules, limits, storage, memory."""
