"""How long a bundle's networks take and how much memory, each in a process of its own, here or on a phone."""
