"""A prediction as node data for Model Explorer, which colours each operation by its worst finding.

Format: `ModelNodeData` of the package ai-edge-model-explorer (model_explorer/node_data_builder.py): results
by node for each graph; its adapter for .tflite files calls a graph by its name and a node by the operation's
place in it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import Any

from msd.measure.report.report import SEVERITIES, DelegatePrediction, FileReport

COLORS = {
    **{"ok": "#5fb98a", "note": "#9bb8e8", "reported": "#d8c04a"},
    **{"unknown": "#a58be0", "wrong": "#e69a3c", "rejected": "#d9534f"},
}


def to_explorer(file: FileReport, prediction: DelegatePrediction) -> str:
    """Return the node data of one file as one delegate is predicted to take it, as JSON."""
    worst = ["ok"] * file.operations
    for finding in sorted(prediction.findings, key=lambda f: -SEVERITIES.index(f.severity)):
        worst[finding.op] = finding.severity
    rest = iter(worst)
    data = {name: _data(prediction, list(islice(rest, count))) for name, count in file.graphs.items()}
    return json.dumps(data, indent=1) + "\n"


def _data(prediction: DelegatePrediction, worst: Sequence[str]) -> dict[str, Any]:
    """Return the node data of one graph, whose operations' worst findings are `worst`."""
    return {
        "name": f"{prediction.delegate} on {prediction.device}",
        "results": {str(i): {"value": value, "bgColor": COLORS[value]} for i, value in enumerate(worst)},
        "showExpandedSummaryOnGroupNode": True,
    }
