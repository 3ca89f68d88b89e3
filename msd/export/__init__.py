"""Export a bundle as a part of an Android or iOS app."""
