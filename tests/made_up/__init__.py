"""A made-up family of six small networks, for tests: its description, its networks, and a checkpoint."""
