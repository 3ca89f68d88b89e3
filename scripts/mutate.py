"""Break each rewrite on purpose, one refusal at a time, and check that its tests notice.

    python scripts/mutate.py [file stems, such as use_conv; all if none]

Each `if …: return skip(…)` is changed to never refuse, then to lose each alternative of its condition.
The tests of that file must then fail. Works on a copy. Exit code 1 if a mutant survives, 2 if the tests fail
without one.
"""

from __future__ import annotations

import ast
import copy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIED = ("msd", "graph_rewrites", "tests", "pyproject.toml")


def refuses(node: ast.AST) -> bool:
    """Return whether `node` is `if …: return skip(…)`."""
    if not isinstance(node, ast.If) or not isinstance(node.body[0], ast.Return):
        return False
    call = node.body[0].value
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "skip"


def weaker(condition: ast.expr) -> Iterator[ast.expr]:
    """Yield conditions that hold less often: never, or without one of the alternatives."""
    yield ast.Constant(False)
    if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.Or):
        for left_out in condition.values:
            rest = [v for v in condition.values if v is not left_out]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(ast.Or(), rest)


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """Yield (description of the mutation, mutated source)."""
    tree = ast.parse(source)
    places = [i for i, node in enumerate(ast.walk(tree)) if refuses(node)]
    for place in places:
        changed = copy.deepcopy(tree)
        node = list(ast.walk(changed))[place]
        assert isinstance(node, ast.If)
        whole = node.test
        for condition in weaker(whole):
            node.test = condition
            text = f"line {node.lineno}: {ast.unparse(whole)}  =>  {ast.unparse(condition)}"
            yield text, ast.unparse(ast.fix_missing_locations(changed))


def passes(folder: Path, stem: str) -> bool:
    """Return whether the tests of one file pass in `folder`."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-qx",
        "-p",
        "no:cacheprovider",
        f"tests/rewrites/test_{stem}.py",
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def main(stems: list[str]) -> int:
    survived = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for item in COPIED:
            source = ROOT / item
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / item)
        for path in sorted((folder / "graph_rewrites").glob("[!_]*.py")):
            if stems and path.stem not in stems:
                continue
            if not passes(folder, path.stem):
                print(f"{path.stem}: its tests fail as it is")
                return 2
            original = path.read_text()
            for what, broken in mutants(original):
                path.write_text(broken)
                alive = passes(folder, path.stem)
                survived += alive
                print(f"{'SURVIVED' if alive else 'noticed '}  {path.stem}, {what}", flush=True)
            path.write_text(original)
    print(f"{survived} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
