"""A bundle as part of an app."""
