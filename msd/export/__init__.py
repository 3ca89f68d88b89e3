"""Export a bundle as a part of an app, or as a web page."""
