"""The Android app's parts that generate images with a bundle: Kotlin sources and their manifest."""
