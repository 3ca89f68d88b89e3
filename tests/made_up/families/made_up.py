"""The description of the family: two text encoders and an image encoder feed a transformer."""

from msd.families.family import Component, Family, Feed, Part

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
            stage="encode",
            output="context",
            lookup="token_embedding",
        ),
        Component(
            name="text_encoder_2",
            title="second text encoder",
            part=Part("text_encoder_2", stem="model"),
            config=f"{NETWORKS}:WordsConfig",
            network=f"{NETWORKS}:words",
            stage="encode",
            output="context",
            lookup="token_embedding_2",
        ),
        Component(
            name="image_encoder",
            title="image encoder",
            part=Part("vae", prefixes=("encoder.",)),
            config=f"{NETWORKS}:EncodedPicturesConfig",
            network=f"{NETWORKS}:image_encoder",
            stage="encode",
            output="image_latent",
        ),
        Component(
            name="transformer",
            title="transformer",
            part=Part("transformer"),
            config=f"{NETWORKS}:TransformerConfig",
            network=f"{NETWORKS}:transformer",
            stage="denoise",
            output="noise",
            feeds={
                "context": (Feed("text_encoder", "context"), Feed("text_encoder_2", "context")),
                "image_latent": (Feed("image_encoder", "image_latent"),),
            },
            prunable=True,
        ),
        Component(
            name="image_decoder",
            title="image decoder",
            part=Part("vae", prefixes=("decoder.",)),
            config=f"{NETWORKS}:PicturesConfig",
            network=f"{NETWORKS}:image_decoder",
            stage="decode",
            output="image",
        ),
    ),
    pipelines=("MadeUpPipeline",),
)
