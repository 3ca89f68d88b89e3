"""What LiteRT, Android and Play declare, held against the stubs that the exported Kotlin is compiled against."""
