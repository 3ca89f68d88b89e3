"""Where checkpoints come from: folders and files, read lazily."""
