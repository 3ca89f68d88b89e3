"""Several image sizes in one converted folder: their graphs share weights, and a command picks one size."""
