"""What each dispatch of a compiled network costs on this machine's GPU, and what each optimisation saves."""
