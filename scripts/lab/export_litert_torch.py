"""Export litert-torch's own Stable Diffusion 1.5 U-Net, with random weights, the way its example does.

    python scripts/lab/export_litert_torch.py OUTPUT.tflite [--device-type cpu|gpu]

Needs an environment of its own with litert-torch 0.10.0, tensorflow-cpu, and 16 GB of memory. The signature
and its inputs follow litert_torch/generative/examples/stable_diffusion/convert_to_tflite.py: batch 2, 64x64
latents. On "gpu" group normalisations become composites (`odml.group_norm`), on "cpu" they are
decomposed. `scripts/full_size_structures.py strip` makes a structure of the file.
"""

from __future__ import annotations

import argparse
from typing import Any


def main() -> None:
    """Export to the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--device-type", choices=["cpu", "gpu"], default="cpu")
    chosen = parser.parse_args()
    export(chosen.output, chosen.device_type)


def export(output: str, device_type: str) -> None:
    """Write the U-Net; raises litert-torch's exceptions."""
    import litert_torch
    import torch
    from litert_torch.generative.examples.stable_diffusion import diffusion

    inputs: Any = torch.zeros(2, 4, 64, 64), torch.zeros(2, 77, 768), torch.zeros(1, 320)
    with torch.inference_mode():
        model = diffusion.Diffusion(diffusion.get_model_config(batch_size=2, device_type=device_type)).eval()
        for parameter in model.parameters():  # They begin as zeros, and the converter then folds all away.
            parameter.normal_(0, max(1, parameter[0].numel()) ** -0.5)
        litert_torch.signature("diffusion", model, inputs).convert().export(output)


if __name__ == "__main__":
    main()
