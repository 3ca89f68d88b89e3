"""The files of an app that uses a bundle: networks, tokenizer, and a manifest."""
