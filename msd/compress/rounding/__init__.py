"""Rounding that compensates its errors, on a calibration."""
