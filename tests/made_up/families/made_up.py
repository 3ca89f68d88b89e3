"""The description of the family: a transformer fed by three encoders, and steered by a second network."""

from msd.models.families.calls import Call, Input, Output, latent, numbers, pixels, tokens, value
from msd.models.families.family import Component, Family, Part

RESIDUALS = tuple(f"residual_{i}" for i in range(13))
NETWORKS = "tests.made_up.networks"

MADE_UP = Family(
    name="made-up",
    title="Made-up Diffusion",
    components=(
        Component(
            name="text_encoder",
            title="text encoder",
            part=Part("text_encoder", stem="model"),
            config=f"{NETWORKS}:WordsConfig",
            network=f"{NETWORKS}:words",
            lookup="token_embedding",
        ),
        Component(
            name="text_encoder_2",
            title="second text encoder",
            part=Part("text_encoder_2", stem="model"),
            config=f"{NETWORKS}:WordsConfig",
            network=f"{NETWORKS}:words",
            lookup="token_embedding_2",
        ),
        Component(
            name="image_encoder",
            title="image encoder",
            part=Part("vae", prefixes=("encoder.",)),
            config=f"{NETWORKS}:EncodedPicturesConfig",
            network=f"{NETWORKS}:image_encoder",
        ),
        Component(
            name="control",
            title="control network",
            part=Part("control"),
            config=f"{NETWORKS}:ControlConfig",
            network=f"{NETWORKS}:control",
        ),
        Component(
            name="transformer",
            title="transformer",
            part=Part("transformer"),
            config=f"{NETWORKS}:TransformerConfig",
            network=f"{NETWORKS}:transformer",
            prunable=True,
        ),
        Component(
            name="image_decoder",
            title="image decoder",
            part=Part("vae", prefixes=("decoder.",)),
            config=f"{NETWORKS}:PicturesConfig",
            network=f"{NETWORKS}:image_decoder",
        ),
    ),
    calls=(
        *(
            Call(
                encoder,
                "once",
                inputs=(Input("tokens", (tokens(),)),),
                outputs=(Output(name, "context", "hidden states"),),
            )
            for encoder, name in (("text_encoder", "words"), ("text_encoder_2", "more words"))
        ),
        Call(
            "image_encoder",
            "once",
            inputs=(Input("image", (pixels("image"),)),),
            outputs=(Output("features", "image_latent", "tensor"),),
        ),
        Call(
            "control",
            "step",
            inputs=(
                Input("latent", (latent(scaled=True),)),
                Input("timestep", (numbers("timestep"),)),
                Input("hint", (pixels("image"),)),
            ),
            outputs=tuple(Output(name, name, "tensor") for name in RESIDUALS),
        ),
        Call(
            "transformer",
            "step",
            inputs=(
                Input("latent", (latent(scaled=True),)),
                Input("timestep", (numbers("timestep"),)),
                Input("context", (value("words"), value("more words"))),
                Input("image_latent", (value("features"),)),
                *(Input(name, (value(name),)) for name in RESIDUALS),
            ),
            outputs=(Output("noise", "noise", "prediction"),),
        ),
        Call("image_decoder", "end", (Input("latent", (latent(),)),), (Output("image", "image", "image"),)),
    ),
    pipelines=("MadeUpPipeline",),
)
