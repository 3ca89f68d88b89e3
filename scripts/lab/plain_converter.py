"""Convert a component with TensorFlow's own converter to dynamic-range int8 weights, as its guide shows.

    python scripts/lab/plain_converter.py build/sd21 vae_decoder build/plain.tflite

`bench_convert.py` compares msd-convert with this.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensorflow as tf

from msd.conversion.job import open_job
from msd.conversion.settings import Settings
from msd.conversion.sources.binding import bind
from msd.conversion.sources.formats import open_checkpoint
from msd.models.structure import VariableSpec


def main(source: Path, component: str, out: Path) -> None:
    """Build the Keras model, give it the checkpoint's weights, convert it, and write it to `out`."""
    checkpoint = open_checkpoint(source)
    model = open_job(source, Settings(rules=())).networks[component].build()
    specs = {v.path: VariableSpec(v.path, tuple(v.shape)) for v in model.variables}
    weights = bind(component, specs, checkpoint.weights[component]).weights
    for variable in model.variables:
        variable.assign(weights[variable.path].load())
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    out.write_bytes(converter.convert())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
