"""The parts of scripts/fuzz.py: mutators, readers, workers."""
