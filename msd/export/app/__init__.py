"""What apps of every platform read: the manifest, schedules, the tokenizer's files, and the networks."""
