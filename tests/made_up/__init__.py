"""A made-up family of five small networks, for tests: its description, its networks, and a checkpoint."""
