"""Files: what is written is whole or absent, and what is read is bounded.

In: paths, dataclasses. Out: atomic writes, staging folders, JSON for dataclasses, fingerprints, caches,
and the words for numbers of things that all rooms' messages use.

Imports: errors.
"""
