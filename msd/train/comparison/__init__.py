"""Compares two models by their images of the same prompts from the same noise."""
