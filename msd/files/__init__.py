"""Reading and writing files safely: atomic writes, staging, JSON against dataclasses, fingerprints."""
