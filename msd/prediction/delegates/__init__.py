"""The delegates that msd has rules for, one file each; a module's `DELEGATE` describes it."""
