"""What an export with --force takes over from the one that it replaces."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from msd.cli.plain import say


def keep_earlier(output: Path, platform: str, force: bool, names: tuple[str, ...]) -> dict[str, str | None]:
    """Return the values of the options `names`: those of an earlier export in `output` where none are given.

    What is taken over is said on stderr.
    """
    from msd.export.folder import earlier_settings

    context = click.get_current_context()
    values: dict[str, str | None] = {name: context.params[name] for name in names}
    earlier = earlier_settings(output, platform) if force else {}
    for name in names:
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not is_given and name in earlier and earlier[name] != values[name]:
            values[name] = earlier[name]
            say(
                f"--{name} {earlier[name]!r}, as the earlier export in {output}; --{name} changes it",
                err=True,
            )
    return values
