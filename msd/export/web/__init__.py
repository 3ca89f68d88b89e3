"""A bundle as a web page, which generates images on the GPU of whoever opens it."""
