#!/usr/bin/env bash
# Keras 3's .weights.h5 knows no layer names: "query" is loaded into "key" if that is made first.
#
# keras 3.15.1 (torch backend), two named Dense layers of one shape in a Sequential model.
# Expected: load_weights finds "query" and "key" by their names, or refuses.
# Seen: it loads without a word, each in the other's place. The file names its groups by class and number, dense and
# dense_1, in the order of the layers; the layers' own names are not in it.
# It matters to whoever rebuilds a network from its description and loads published weights, as for keras-cv's Stable
# Diffusion: attention has four layers of one shape, and a rebuilt block in another order loads and draws noise.
# Written: the guide says that the architecture must be the same; the older .h5 format had by_name.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile keras==3.15.1 torch==2.13.0 numpy==1.26.4 h5py==3.14.0
cd "$folder"
KERAS_BACKEND=torch "$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import h5py
import keras
import numpy as np


def model(*names):
    return keras.Sequential([keras.Input((4,)), *(keras.layers.Dense(4, use_bias=False, name=name) for name in names)])


saved, loaded = model("query", "key"), model("key", "query")
saved.get_layer("query").set_weights([np.full((4, 4), 1.0)])
saved.get_layer("key").set_weights([np.full((4, 4), 2.0)])
saved.save_weights("attention.weights.h5")
loaded.load_weights("attention.weights.h5")
values = {name: float(loaded.get_layer(name).get_weights()[0].mean()) for name in ("query", "key")}
groups = list(h5py.File("attention.weights.h5")["layers"])
print("groups of the file:", groups)
print("saved as query 1, key 2; loaded as", values)
assert values == {"query": 2, "key": 1} and not {"query", "key"} & set(groups), "the behaviour changed"
EOF
