"""What an iOS app needs of a bundle: its files, and a manifest."""
