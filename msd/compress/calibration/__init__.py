"""Real inputs for calibration: recorded once, kept in files, read one run at a time."""
