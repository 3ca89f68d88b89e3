"""The description of the family."""

from msd.models.families.calls import Call, Input, Output, latent, numbers, pixels, sinusoids, tokens, value
from msd.models.families.family import Component, Family, Part

NAMES = ("words", "more_words", "eye", "steering", "denoising", "sketch", "painting")
OPTIONS = {"sketch": "--also sketch"}

WIRED = Family(
    name="wired",
    title="Wired Diffusion",
    components=tuple(
        Component(
            name, name.replace("_", " "), Part(name), config="", network="", option=OPTIONS.get(name, "")
        )
        for name in NAMES
    ),
    calls=(
        Call(
            "words",
            "once",
            inputs=(Input("ids", (tokens("tokenizer"),)),),
            outputs=(Output("context", "hidden", "hidden states"),),
        ),
        Call(
            "more_words",
            "once",
            inputs=(Input("ids", (tokens("tokenizer_2"),)),),
            outputs=(Output("wide context", "hidden", "hidden states"), Output("pooled", "vector", "vector")),
        ),
        Call(
            "eye",
            "once",
            inputs=(Input("pixels", (pixels("image"),)),),
            outputs=(Output("begun", "moments", "moments"),),
        ),
        Call(
            "eye",
            "once",
            inputs=(Input("pixels", (pixels("masked image"),)),),
            outputs=(Output("masked", "moments", "moments"),),
        ),
        Call(
            "steering",
            "step",
            inputs=(
                Input("sample", (latent(scaled=True),)),
                Input("plain", (latent(),)),
                Input("hint", (pixels("image"), pixels("mask"))),
                Input("time", (numbers("timestep"),)),
                Input("vector", (value("pooled"),)),
            ),
            outputs=tuple(Output(f"residual {i}", f"out_{i}", "tensor") for i in range(3)),
        ),
        Call(
            "denoising",
            "step",
            inputs=(
                Input("sample", (latent(scaled=True), pixels("mask"), value("masked"))),
                Input("time", (sinusoids("timestep"),)),
                Input("sizes", (sinusoids("sizes"),)),
                Input("text", (value("context"), value("wide context"))),
                Input("twice", (value("context"), value("context")), axis=1),
                Input("added", (value("residual 2"), value("residual 0")), axis=2),
                Input("more", (value("residual 1"),)),
            ),
            outputs=(Output("noise", "noise", "prediction"),),
        ),
        Call("sketch", "preview", (Input("latent", (latent(),)),), (Output("preview", "rgb", "image"),)),
        Call("painting", "end", (Input("latent", (latent(),)),), (Output("image", "rgb", "image"),)),
    ),
    pipelines=("WiredPipeline",),
    takes_controls=True,
)
