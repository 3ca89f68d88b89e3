"""A prediction as node data for Model Explorer, which colours each operation by its worst finding.

Format: `ModelNodeData` of the package ai-edge-model-explorer (model_explorer/node_data_builder.py): results
by node for each graph; a .tflite file's first graph is "main", a node is named by its operation's place.
"""

from __future__ import annotations

import json

from msd.report.report import SEVERITIES, FileReport, Prediction

COLORS = {"ok": "#5fb98a", "note": "#9bb8e8", "unknown": "#a58be0", "wrong": "#e69a3c", "rejected": "#d9534f"}


def to_explorer(file: FileReport, prediction: Prediction) -> str:
    """Return the node data of one file as one delegate is predicted to take it, as JSON."""
    worst = dict.fromkeys(map(str, range(file.operations)), "ok")
    for finding in sorted(prediction.findings, key=lambda f: -SEVERITIES.index(f.severity)):
        worst[str(finding.op)] = finding.severity
    data = {
        "name": f"{prediction.delegate} on {prediction.device}",
        "results": {node: {"value": value, "bgColor": COLORS[value]} for node, value in worst.items()},
        "showExpandedSummaryOnGroupNode": True,
    }
    return json.dumps({"main": data}, indent=1) + "\n"
