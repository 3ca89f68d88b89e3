"""Latency and memory of a bundle's networks, each in a process of its own, on this machine or a phone."""
