"""The backends, a file each, found by being there: a module's `BACKEND` describes it."""
