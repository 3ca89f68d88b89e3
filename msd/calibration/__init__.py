"""Real inputs for measuring: gathered once, kept in files, read one run at a time."""
