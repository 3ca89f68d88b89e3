"""The parts of an iOS app that uses a bundle: its files, and a manifest."""
