"""What LiteRT, Android and Play declare, and what our stubs of them say otherwise."""
