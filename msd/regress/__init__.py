"""Compare the images of a converted bundle with golden ones, and fail when they get worse."""
