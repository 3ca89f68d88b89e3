"""Safe file access: atomic writes, staging folders, JSON for dataclasses, fingerprints."""
