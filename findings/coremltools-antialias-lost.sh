#!/usr/bin/env bash
# coremltools converts bilinear resizing with antialias to the same program as without it.
#
# coremltools 9.0, torch 2.13.0, F.interpolate(mode="bilinear", antialias=True), traced and by torch.export, iOS 17.
# Expected: another program than with antialias=False, or an error, as bicubic resizing has one either way.
# Seen: both are one upsample_bilinear of the same scale, an operation that knows no antialias: Core ML's format has none. In
# PyTorch the two are different pictures: a fine pattern of 44 percent white is grey four times smaller, and black without it.
# No warning names it.
# It matters to models that shrink pictures themselves, such as an image encoder with CLIP's preparation in front, for IP-Adapter
# or a safety checker: the phone's numbers are of an aliased picture. On Linux the program can be read, not run.
# Written: issue 5728 of pytorch/executorch (2024) asks for the name to be an alias of the other; not what that loses.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 coremltools==9.0 numpy==1.26.4
cd "$folder"
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import coremltools
import torch


class Resize(torch.nn.Module):
    def __init__(self, mode, antialias):
        super().__init__()
        self.options = {"size": (8, 8), "mode": mode, "antialias": antialias}

    def forward(self, picture):
        return torch.nn.functional.interpolate(picture, **self.options)


def program(module, exported):
    """Return the converted operations with all that is constant of their inputs."""
    if exported:
        given = torch.export.export(module, (picture,)).run_decompositions({})
        inputs = {}
    else:
        given, inputs = torch.jit.trace(module, picture), {"inputs": [coremltools.TensorType(shape=picture.shape)]}
    target = coremltools.target.iOS17
    model = coremltools.convert(given, minimum_deployment_target=target, skip_model_load=True, **inputs)
    operations = model._mil_program.functions["main"].operations
    return [
        (one.op_type, {name: value.val for name, value in one.inputs.items() if value.val is not None})
        for one in operations if one.op_type != "const"
    ]


stripes = (torch.arange(32) % 4 == 0).float()
picture = (stripes[:, None] + stripes[None]).clamp(max=1)[None, None].repeat(1, 3, 1, 1)
results = [Resize("bilinear", antialias)(picture) for antialias in (True, False)]
print(f"PyTorch: {results[0].mean():.3f} on average with antialias, {results[1].mean():.3f} without, "
      f"{(results[0] - results[1]).abs().max():.3f} apart; the picture has {picture.mean():.3f}")
assert (results[0] - results[1]).abs().max() > 0.3, "the behaviour changed"
for exported in (False, True):
    with_it, without = (program(Resize("bilinear", antialias), exported) for antialias in (True, False))
    print(f"{'torch.export' if exported else 'traced'}, with antialias: {with_it}")
    print(f"the same without: {with_it == without}")
    names = [name for name, _ in with_it if name != "cast"]
    assert with_it == without and names == ["upsample_bilinear"], "the behaviour changed"
try:
    program(Resize("bicubic", True), False)
except NotImplementedError as error:
    print(f"bicubic: {str(error).splitlines()[0]}")
else:
    raise AssertionError("the behaviour changed")
EOF
