"""Parse LiteRT's native log of a compilation and its runs.

The runtime's own `is_fully_accelerated()` counts operations on the CPU delegate too, so only the log tells
what ran on the GPU. The lines are those of LiteRT 2.1.2 to 2.3.0 (tests/recorded/ holds real
logs of each kind); `REPLACING` is there from 2.2.0 on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

ADAPTER = re.compile(r"Selected adapter: (?P<name>.*?), arch=.*?adapterType=(?P<type>[^,\n]*)")
REPLACING = re.compile(
    r"Replacing (\d+) out of (\d+) node\(s\) with delegate \((\w+)\) node, yielding (\d+) partitions"
)
HEADING = "Following operations are not supported by GPU delegate:"
REJECTION = re.compile(r"(?P<kind>[A-Z][A-Z0-9_]*(?: [^:]+)?): (?P<reason>.*)")
TALLY = re.compile(r"(?P<gpu>\d+|No) operations will run on the GPU, and (?:the remaining|all) (?P<cpu>\d+)")
PROBLEM = re.compile(r"(?:ERROR: (?:\[[^\]]*\] )?|E\d{4} [^\]]*\] )(?P<words>.+)")
CPU_DELEGATES = ("TfLiteXNNPackDelegate", "YNNPackDelegate")
RESTORED = "Restored original execution plan after delegate application failure"
CONSEQUENCE = "is invalid due to a previous error"
REJECTED_CONSTANT = "BHWC-convertible."
"""The end of an error about a constant of rank 5 or more, whose operation is then listed as rejected."""

NO_DISPATCH = "Failed to initialize Dispatch API"
"""An error about NPUs, which versions 2.1.5 to 2.2.0 log even where the GPU alone is asked for."""

CREATION = re.compile(r"^Failed to create litert::ml_drift::DelegateKernel\w*: ")


@dataclass(frozen=True)
class NativeLog:
    """The facts of one log.

    `tallies` are pairs of the operations on the GPU and on the CPU. `rejected` are pairs of a kind and a
    reason; the delegate prints each pair once, however many operations it applies to. `replaced` are
    triples (delegated, all, partitions) of the graphs with delegated operations, which the runtime prints at
    its verbose level only; `on_cpu` are those of the CPU's delegate, XNNPACK. `initialised` is the number of
    delegate kernels whose initialisation began. `problems` are the other errors, in order.
    """

    adapter: str | None
    adapter_type: str | None
    replaced: tuple[tuple[int, int, int], ...]
    rejected: tuple[tuple[str, str], ...]
    tallies: tuple[tuple[int, int], ...]
    initialised: int
    restored: bool
    problems: tuple[str, ...]
    on_cpu: tuple[tuple[int, int, int], ...] = ()

    @property
    def delegated(self) -> int:
        """The number of operations on the GPU; 0 where the runtime restored the original plan.

        A fully delegated graph has no tally: without a replacement line its number is unknown, and this is 0.
        """
        if self.restored:
            return 0
        if self.replaced:
            return sum(delegated for delegated, _, _ in self.replaced)
        return sum(gpu for gpu, _ in self.tallies)

    @property
    def partitions(self) -> int:
        """The number of partitions of all graphs with delegated operations, including those on the CPU."""
        return 0 if self.restored else sum(partitions for _, _, partitions in self.replaced)


def parse(text: str) -> NativeLog:
    """Return the facts in a native log."""
    adapter = ADAPTER.search(text)
    lines = text.splitlines()
    return NativeLog(
        adapter=adapter["name"] if adapter else None,
        adapter_type=adapter["type"].strip() if adapter else None,
        replaced=tuple(_replaced(text, cpu=False)),
        rejected=tuple(_rejected(lines)),
        tallies=tuple(
            (0 if m["gpu"] == "No" else int(m["gpu"]), int(m["cpu"])) for m in TALLY.finditer(text)
        ),
        initialised=len(re.findall(r"Initializing \S+-based API from graph", text)),
        restored=RESTORED in text,
        problems=tuple(_problems(lines)),
        on_cpu=tuple(_replaced(text, cpu=True)),
    )


def _replaced(text: str, cpu: bool) -> Iterator[tuple[int, int, int]]:
    for delegated, nodes, delegate, partitions in REPLACING.findall(text):
        if (delegate in CPU_DELEGATES) == cpu:
            yield int(delegated), int(nodes), int(partitions)


def _rejected(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the (kind, reason) pairs between heading and tally; a line without a kind continues the last."""
    pairs: dict[tuple[str, str], None] = {}
    inside = False
    for line in lines:
        if HEADING in line:
            inside, last = True, None
        elif TALLY.search(line):
            inside = False
        elif inside:
            match = REJECTION.match(line)
            pair = (match["kind"], match["reason"]) if match else ("UNKNOWN", line)
            if not match and last:
                pairs.pop(last, None)
                pair = (last[0], f"{last[1]} {line.strip()}")
            pairs[pair] = None
            last = pair
    return iter(pairs)


def _problems(lines: list[str]) -> Iterator[str]:
    """Yield each error once: the first line of Dawn's validation errors, and no consequences of others."""
    problems: dict[str, None] = {}
    rejecting = any(HEADING in line for line in lines)
    for i, line in enumerate(lines):
        match = PROBLEM.match(line)
        if not match or any(words in line for words in (HEADING, CONSEQUENCE, NO_DISPATCH)):
            continue
        words = _joined(match["words"], lines[i + 1 :])
        if not (rejecting and words.endswith(REJECTED_CONSTANT)):
            problems[CREATION.sub("", words).strip()] = None
    return iter(problems)


def _joined(words: str, following: list[str]) -> str:
    """Return an error as one line, even if a structure in it is printed over several."""
    if not words.endswith("{"):
        return words
    end = next((i for i, line in enumerate(following) if line.startswith("}")), len(following) - 1)
    return " ".join([words, *(line.strip() for line in following[: end + 1])])
