"""Checkpoint readers: folders and files, read lazily."""
