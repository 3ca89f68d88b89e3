#!/usr/bin/env bash
# ai-edge-litert 2.1.6 does not run after "pip install": it imports ml_dtypes, which its metadata does not name.
#
# ai-edge-litert 2.1.6, with 2.1.5 and 2.2.0 beside it.
# Expected: what pip installs with a wheel is all that its modules need, as with 2.1.5 and with 2.2.0.
# Seen: in a fresh environment "from ai_edge_litert.compiled_model import CompiledModel" of 2.1.6 alone ends in
# "No module named 'ml_dtypes'"; the interpreter's module is importable. With ml_dtypes installed, all is.
# It matters to whoever pins 2.1.6, or tests several releases in environments of their own: beside TensorFlow or JAX,
# which bring ml_dtypes, nothing is missing, so that the fault stays hidden where wheels are made.
# Written: nowhere; Requires-Dist of the wheel's METADATA has ml_dtypes for the extra "model-utils" alone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
imported() {
    "$folder/$1/bin/python" -c "import ai_edge_litert.compiled_model" 2> "$folder/log" && echo yes || tail -1 "$folder/log"
}
for release in 2.1.5 2.1.6 2.2.0; do
    "$(command -v python3.11 || command -v python3)" -m venv "$folder/$release"
    "$folder/$release/bin/pip" install -q --no-compile "ai-edge-litert==$release" 2> "$folder/log" || { cat "$folder/log"; exit 1; }
    "$folder/$release/bin/python" -c "import ai_edge_litert.interpreter"
    echo "$release: compiled_model importable: $(imported "$release")"
done
[ "$(imported 2.1.5)" = yes ]
[ "$(imported 2.1.6)" = "ModuleNotFoundError: No module named 'ml_dtypes'" ]
[ "$(imported 2.2.0)" = yes ]
"$folder/2.1.6/bin/pip" install -q --no-compile ml_dtypes==0.6.0 2> "$folder/log" || { cat "$folder/log"; exit 1; }
echo "2.1.6 with ml_dtypes: $(imported 2.1.6)"
[ "$(imported 2.1.6)" = yes ]
