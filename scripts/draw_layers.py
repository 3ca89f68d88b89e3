"""Draw the layers of the code in docs/images/layers.svg: a package imports only from rows below its own.

    python -m scripts.draw_layers

Rows follow from the import statements: a package stands one row above the highest package that it imports.
`tests/test_docs.py` fails when the image is out of date.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "images" / "layers.svg"
BOX, ROW, GAP, HEIGHT = 128, 46, 12, 30
"""Width of a box, height of a row, the space between boxes and the height of a box, in pixels."""

HEAD = """<svg xmlns="http://www.w3.org/2000/svg"
  width="{width}" height="{height}" viewBox="0 0 {width} {height}">
<title>Packages of msd by layer: each imports only from the rows below it</title>
<style>
  rect {{ fill: #f6f8fa; stroke: #8c959f; rx: 6px }}
  text {{ font: 14px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328; text-anchor: middle }}
  .module {{ fill: #ffffff; stroke-dasharray: 4 3 }}
</style>
<rect width="{width}" height="{height}" style="fill: #ffffff; stroke: none"/>
"""


def package_of(module: str) -> str:
    """Return the room in the figure that a module belongs to: "msd.graph" for "msd.graph.ir.graph"."""
    first, *rest = module.split(".")
    return f"msd.{rest[0]}" if first == "msd" and rest else first


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module imports anywhere, except for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "msd":
            yield from (f"msd.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        yield from imported(node)


def packages(root: Path = ROOT) -> dict[str, set[str]]:
    """Return the packages that each package imports; a module of msd/ itself counts as one."""
    found: dict[str, set[str]] = {}
    for path in sorted(path for top in ("msd", "graph_rewrites") for path in (root / top).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = package_of(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        found.setdefault(name, set()).update(map(package_of, imported(ast.parse(path.read_text("utf-8")))))
    del found["msd"]
    return {name: others & set(found) - {name} for name, others in found.items()}


def layers(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the packages row by row, the lowest first; raises graphlib.CycleError for a cycle."""
    height: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        height[name] = 1 + max((height[other] for other in graph[name]), default=-1)
    return [sorted(name for name in height if height[name] == row) for row in range(max(height.values()) + 1)]


def draw(rows: list[list[str]], root: Path = ROOT) -> str:
    """Return the SVG file: the highest row on top, modules that are no packages dashed."""
    width = max(map(len, rows)) * (BOX + GAP) + GAP
    lines = [HEAD.format(width=width, height=len(rows) * ROW + GAP)]
    for number, row in enumerate(reversed(rows)):
        left = (width - len(row) * (BOX + GAP) + GAP) // 2
        for place, name in enumerate(row):
            x, y = left + place * (BOX + GAP), GAP + number * ROW
            module = "" if (root / name.replace(".", "/")).is_dir() else ' class="module"'
            label = name.removeprefix("msd.") + (".py" if module else "")
            lines.append(f'<rect x="{x}" y="{y}" width="{BOX}" height="{HEIGHT}"{module}/>\n')
            lines.append(f'<text x="{x + BOX // 2}" y="{y + 20}">{label}</text>\n')
    return "".join([*lines, "</svg>\n"])


if __name__ == "__main__":
    PICTURE.write_text(draw(layers(packages())), "utf-8")
