"""The backends, one module each, whose `BACKEND` is the description; the registry loads all of them."""
