"""The folder of the configurations that come with msd: recipes, devices, suites."""

from pathlib import Path

CONFIGS = Path(__file__).parents[2] / "configs"
