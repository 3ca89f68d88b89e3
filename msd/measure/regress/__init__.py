"""Compare a bundle's images with golden images, and fail when they get worse."""
