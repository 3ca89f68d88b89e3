"""Public configurations are understood, and what we cannot build is refused by key and value."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from msd.errors import BadCheckpoint, BadConfig, MsdError
from msd.models.config import UNET_ONLY, TextEncoderConfig, UNetConfig
from msd.models.vae_config import VAE_ONLY, VaeDecoderConfig
from tests.late import diffusers
from tests.stable_diffusion import networks_for, public_configs

PUBLIC = sorted((Path(__file__).parent.parent / "configs" / "models").glob("*.toml"))
PARSERS = {
    "text_encoder": TextEncoderConfig.from_diffusers,
    "unet": UNetConfig.from_diffusers,
    "vae": VaeDecoderConfig.from_diffusers,
}


def public(name: str) -> dict[str, Any]:
    (path,) = (path for path in PUBLIC if path.stem == name)
    return tomllib.loads(path.read_text())


def parsed(config: dict[str, Any]) -> tuple[TextEncoderConfig, UNetConfig, VaeDecoderConfig]:
    return (
        TextEncoderConfig.from_diffusers(config["text_encoder"], "text_encoder"),
        UNetConfig.from_diffusers(config["unet"], "unet"),
        VaeDecoderConfig.from_diffusers(config["vae"], "vae"),
    )


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.stem)
def test_public_configurations_are_what_diffusers_understands(path: Path) -> None:
    config = tomllib.loads(path.read_text())
    assert config.keys() == {"text_encoder", "unet", "vae", "scheduler"}
    with torch.device("meta"):
        unet, vae = diffusers.UNet2DConditionModel(**config["unet"]), diffusers.AutoencoderKL(**config["vae"])
    # With every default spelt out, as save_pretrained writes it.
    assert UNetConfig.from_diffusers(dict(unet.config), "unet") == parsed(config)[1]
    assert VaeDecoderConfig.from_diffusers(dict(vae.config), "vae") == parsed(config)[2]


def test_stable_diffusion_2_1() -> None:
    text_encoder, unet, vae_decoder = parsed(public("sd21"))
    assert text_encoder == TextEncoderConfig(49408, 77, 1024, 4096, 23, 16, "gelu", 1e-5)
    assert (unet.heads, unet.size, unet.context_width, unet.linear_projection) == (
        (5, 10, 20, 20),
        (96, 96),
        1024,
        True,
    )
    assert (unet.down_attention, unet.up_attention) == ((True, True, True, False),) * 2
    assert (unet.time_width, vae_decoder.scale) == (1280, 8)
    made = networks_for(public_configs(public("sd21")))
    assert made["unet"].inputs == {
        "latent": ((1, 96, 96, 4), "float32"),
        "timestep": ((1,), "float32"),
        "context": ((1, 77, 1024), "float32"),
    }
    assert made["vae_decoder"].inputs == {"latent": ((1, 96, 96, 4), "float32")}


def test_stable_diffusion_1_5_has_eight_heads_everywhere() -> None:
    text_encoder, unet, vae_decoder = parsed(public("sd15"))
    assert text_encoder.activation == "quick_gelu"
    assert (unet.heads, unet.linear_projection) == ((8, 8, 8, 8), False)
    assert vae_decoder.scaling_factor == 0.18215


def test_inpainting_decodes_four_of_nine_channels() -> None:
    made = networks_for(public_configs(public("sd2-inpainting")), height=512, width=768, batch=2)
    assert made["unet"].inputs["latent"] == ((2, 64, 96, 9), "float32")
    assert made["vae_decoder"].inputs["latent"] == ((2, 64, 96, 4), "float32")


@pytest.mark.parametrize(("height", "width"), [(500, 512), (512, 32), (0, 512), (512, -64), (512, 520)])
def test_a_size_that_the_levels_do_not_divide_is_refused(height: int, width: int) -> None:
    with pytest.raises(BadConfig, match=r"the (height|width) of -?\d+ pixels must be a multiple of 64"):
        networks_for(public_configs(public("sd21")), height=height, width=width)


@pytest.mark.parametrize(("cells", "side"), [((62, 64), "height, 496"), ((64, 60), "width, 480")])
def test_a_size_of_the_checkpoint_s_own_that_is_refused_names_the_option(
    cells: tuple[int, int], side: str
) -> None:
    config = public("sd21")
    config["unet"]["sample_size"] = cells
    said = f"the checkpoint's own {side} pixels, is no multiple of 64, .* --size WIDTHxHEIGHT takes another"
    with pytest.raises(BadConfig, match=said):
        networks_for(public_configs(config))
    made = networks_for(public_configs(config), height=512, width=512)
    assert made["unet"].inputs["latent"] == ((1, 64, 64, 4), "float32")


def test_only_the_unet_takes_several_chunks() -> None:
    config = public_configs(public("sd21"))
    one, three = (networks_for(config, chunks=chunks) for chunks in (1, 3))
    assert three["unet"].inputs["context"] == ((1, 231, 1024), "float32")
    assert three["text_encoder"].inputs == one["text_encoder"].inputs
    assert three["text_encoder"].description == one["text_encoder"].description
    with pytest.raises(BadConfig, match="a prompt cannot have 0 chunks; 1 or more were expected"):
        networks_for(config, chunks=0)


def refuse(component: str, message: str, **changes: Any) -> None:
    config = {**public("sd21")[component], **changes}
    with pytest.raises(BadCheckpoint, match=re.escape(message)):
        PARSERS[component](config, component)


@pytest.mark.parametrize("key", UNET_ONLY)
def test_what_the_unet_cannot_do(key: str) -> None:
    only = " or ".join(map(repr, UNET_ONLY[key]))
    refuse("unet", f"unet/config.json says {key} = 'other', but only {only} is supported", **{key: "other"})


@pytest.mark.parametrize("key", VAE_ONLY)
def test_what_the_vae_cannot_do(key: str) -> None:
    only = " or ".join(map(repr, VAE_ONLY[key]))
    refuse("vae", f"vae/config.json says {key} = 'other', but only {only} is supported", **{key: "other"})


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("unet", {"down_block_types": ["AttnDownBlock2D"] * 4}, "only CrossAttnDownBlock2D and DownBlock2D are"),
    ("unet", {"up_block_types": ["UpBlock2D"] * 3}, "but block_out_channels has 4 levels"),
    ("unet", {"down_block_types": "DownBlock2D"}, "a list with one entry for each level was expected"),
    ("unet", {"only_cross_attention": 0}, "only False is supported"),
    ("unet", {"only_cross_attention": True}, "says only_cross_attention = True, but only False is supported"),
    ("unet", {"only_cross_attention": None}, "only False is supported"),
    (
        "unet",
        {"only_cross_attention": [False, True, False, False]},
        "says only_cross_attention = [False, True, False, False], but only False is supported",
    ),
    ("unet", {"only_cross_attention": [False] * 3}, "there are 4 levels"),
    ("unet", {"addition_embed_type": "image"}, "addition_embed_type = 'image', but only None, text_time are"),
    ("unet", {"novelty": 3}, "says novelty = 3, but its meaning is unknown; only null is supported"),
    ("unet", {"attention_head_dim": [5, 10, 20]}, "there are 4 levels"),
    ("unet", {"attention_head_dim": 7}, "must be a multiple of attention_head_dim = 7"),
    ("unet", {"attention_head_dim": 0}, "an integer from 1 to 256 was expected"),
    ("unet", {"norm_num_groups": 48}, "must be a multiple of norm_num_groups = 48"),
    ("unet", {"norm_num_groups": None}, "an integer from 1 to 65536 was expected"),
    ("unet", {"layers_per_block": 10**9}, "an integer from 1 to 16 was expected"),
    ("unet", {"layers_per_block": True}, "an integer from 1 to 16 was expected"),
    ("unet", {"transformer_layers_per_block": [[1], 1, 1, 1]}, "so that the way up must be given"),
    ("unet", {"transformer_layers_per_block": [1, 1, 1, -1]}, "an integer from 0 to 16 was expected"),
    ("unet", {"transformer_layers_per_block": 17}, "an integer from 0 to 16 was expected"),
    ("unet", {"transformer_layers_per_block": False}, "an integer from 0 to 16 was expected"),
    (
        "unet",
        {"reverse_transformer_layers_per_block": 1},
        "says reverse_transformer_layers_per_block = 1, but a list with one entry for each level was",
    ),
    ("unet", {"quantization_config": {"bits": 8}}, "its meaning is unknown; only null is supported"),
    ("unet", {"cross_attention_dim": [1024, 768, 768, 768]}, "one number for all levels is supported"),
    ("unet", {"cross_attention_dim": [1024] * 3}, "there are 4 levels"),
    ("unet", {"block_out_channels": [32] * 9}, "1 to 8 levels are supported"),
    ("unet", {"block_out_channels": [], "down_block_types": []}, "1 to 8 levels are supported"),
    ("unet", {"freq_shift": 160}, "the first must be even and above 320"),
    ("unet", {"freq_shift": "0"}, "a number was expected"),
    ("unet", {"norm_eps": 0}, "a number above 0 was expected"),
    ("unet", {"norm_eps": math.nan}, "a number was expected"),
    ("unet", {"sample_size": [64]}, "a height and a width were expected"),
    ("unet", {"use_linear_projection": "yes"}, "true or false was expected"),
    ("unet", {"time_cond_proj_dim": -1}, "an integer from 1 to 65536 was expected"),
    ("vae", {"up_block_types": ["AttnUpDecoderBlock2D"] * 4}, "only UpDecoderBlock2D are supported"),
    ("vae", {"block_out_channels": [128, 256, 512, 500]}, "must be a multiple of norm_num_groups = 32"),
    ("vae", {"scaling_factor": 0}, "a number above 0 was expected"),
    ("vae", {"shift_factor": 0.1}, "says shift_factor = 0.1, but only None or 0 is supported"),
    ("vae", {"shift_factor": False}, "says shift_factor = False, but only None or 0 is supported"),
    ("vae", {"novelty": True}, "its meaning is unknown"),
    ("text_encoder", {"model_type": "t5"}, "says model_type = 't5', but only 'clip_text_model'"),
    (
        "text_encoder",
        {"architectures": ["CLIPTextModelWithProjection"]},
        "but only ['CLIPTextModel'] or None",
    ),
    (
        "text_encoder",
        {"quantization_config": {"load_in_8bit": True, "quant_method": "bitsandbytes"}},
        "'quant_method': 'bitsandbytes'}, but only None is supported",
    ),
    ("text_encoder", {"hidden_act": "relu"}, "says hidden_act = 'relu', but only quick_gelu, gelu,"),
    ("text_encoder", {"hidden_size": 1000}, "must be a multiple of num_attention_heads = 16"),
]


@pytest.mark.parametrize(("component", "changes", "message"), REFUSED, ids=str)
def test_refusals(component: str, changes: dict[str, Any], message: str) -> None:
    refuse(component, message, **changes)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("only_cross_attention", False),
        ("attention_head_dim", 8),
        ("cross_attention_dim", 768),
        ("layers_per_block", 1),
        ("transformer_layers_per_block", 2),
    ],
)
def test_what_a_list_repeats_for_every_level_is_read_as_the_value(key: str, value: Any) -> None:
    config = public("sd15")["unet"]
    with torch.device("meta"):
        one, every = (
            diffusers.UNet2DConditionModel(**{**config, key: each}) for each in (value, [value] * 4)
        )
    shapes = [{name: each.shape for name, each in made.state_dict().items()} for made in (one, every)]
    assert shapes[0] == shapes[1]
    single, repeated = (UNetConfig.from_diffusers(dict(made.config), "unet") for made in (one, every))
    assert single == repeated


FLAGS = [
    ("unet", key)
    for key in (
        *("use_linear_projection", "flip_sin_to_cos", "center_input_sample", "dual_cross_attention"),
        *("class_embeddings_concat", "resnet_skip_time_act", "mid_block_only_cross_attention"),
    )
] + [("vae", key) for key in ("use_quant_conv", "use_post_quant_conv", "mid_block_add_attention")]


@pytest.mark.parametrize(("component", "key"), FLAGS)
def test_null_is_false_as_in_diffusers(component: str, key: str) -> None:
    kind = {"unet": diffusers.UNet2DConditionModel, "vae": diffusers.AutoencoderKL}[component]
    config = public("sd15")[component]
    with torch.device("meta"):
        made = [kind(**{**config, key: value}) for value in (None, False)]
    assert made[0].config[key] is None
    assert [*made[0].state_dict()] == [*made[1].state_dict()]
    null, false = (PARSERS[component]({**config, key: value}, component) for value in (None, False))
    assert null == false


def test_a_shift_of_0_is_none() -> None:
    config = public("sd15")["vae"]
    plain, zero = (
        VaeDecoderConfig.from_diffusers({**config, **c}, "vae") for c in ({}, {"shift_factor": 0.0})
    )
    assert plain == zero


@pytest.mark.parametrize("reverse", [{}, {"reverse_transformer_layers_per_block": [2, 1, 0]}])
def test_no_layers_where_there_is_no_attention_are_any_number_of_them(reverse: dict[str, Any]) -> None:
    """As in a configuration of Stable Diffusion XL, whose first level has no attention."""
    config = public("sd15")["unet"] | {
        "block_out_channels": [32, 64, 64],
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
        "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    }
    changes = [{"transformer_layers_per_block": [count, 1, 2], **reverse} for count in (0, 1)]
    with torch.device("meta"):
        made = [diffusers.UNet2DConditionModel(**config, **each) for each in changes]
    assert [*made[0].state_dict()] == [*made[1].state_dict()]
    none, one = (UNetConfig.from_diffusers({**config, **each}, "unet") for each in changes)
    assert none == one


def test_a_number_for_the_way_up_is_no_list_in_diffusers_either() -> None:
    with pytest.raises(TypeError), torch.device("meta"):
        diffusers.UNet2DConditionModel(**public("sd15")["unet"], reverse_transformer_layers_per_block=1)


def test_unknown_keys_that_are_switched_off_are_ignored() -> None:
    config = {**public("sd21")["unet"], "novelty": None, "other": False, "_private": 7}
    assert UNetConfig.from_diffusers(config, "unet") == parsed(public("sd21"))[1]


OFTEN_LEFT_OUT = "only_cross_attention", "sample_size", "time_cond_proj_dim", "novelty"
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=5,
)


@given(st.data())
def test_any_value_is_understood_or_refused(data: st.DataObject) -> None:
    component = data.draw(st.sampled_from(sorted(PARSERS)))
    config = public("sd21")[component]
    key = data.draw(st.sampled_from(sorted({*config, *OFTEN_LEFT_OUT})))
    try:
        PARSERS[component]({**config, key: data.draw(ANYTHING)}, component)
    except MsdError as error:
        said = str(error)
    else:
        return
    assert said.startswith(f"{component}/config.json says ")
