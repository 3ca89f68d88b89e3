"""Files: what is written is whole or absent, and what is read is bounded.

In: paths, dataclasses. Out: atomic writes, staging folders, JSON for dataclasses, fingerprints, caches.

Imports: errors.
"""
