"""The folder of the configurations that come with msd: recipes, devices, suites of images."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]

CONFIGS = PACKAGE / "configs" if (PACKAGE / "configs").is_dir() else PACKAGE.parent / "configs"
"""Inside an installed package, and beside it in a checkout."""
