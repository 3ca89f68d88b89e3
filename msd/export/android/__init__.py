"""What an Android app needs to draw with a bundle: Kotlin sources, and the manifest that they read."""
