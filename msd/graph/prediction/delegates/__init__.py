"""The delegates that msd has rules for, one module each, whose `DELEGATE` is the description."""
