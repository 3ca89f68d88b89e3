"""The rules of each release of tflite-gpu, TensorFlow Lite's and LiteRT's, and the names that are refused."""

from __future__ import annotations

import pytest

from msd.errors import BadConfig
from msd.graph.ir import Model
from msd.graph.prediction.delegates.tflite_gpu import RULES
from msd.graph.prediction.releases import numbers
from msd.graph.prediction.rules import predict
from tests.oracle.case import given, model, op
from tests.oracle.case import numbers as constant

F, S = "FLOAT32", (2, 3, 5, 8)
ASKED = ("2.14", "2.15", "2.16", "2.17", "2.21", "litert-2.1.0", "litert-2.1.6")


def refusing(made: Model) -> list[str]:
    """Return the releases that reject something of `made`."""
    return [r for r in ASKED if any(f.severity == "rejected" for f in predict(made, "tflite-gpu", r))]


def select(*branches: object) -> Model:
    return model(op("SELECT_V2", [given(5, 8, dtype="BOOL"), *branches], ((5, 8), F)))


def test_the_releases_are_in_order_and_each_says_what_it_rests_on() -> None:
    assert RULES.releases == ASKED == tuple(RULES.evidence)
    assert sorted(ASKED, key=numbers) == list(ASKED)
    assert RULES.default == ASKED[-1]


def test_a_product_that_no_operand_covers_is_taken_from_2_21_on() -> None:
    made = model(op("MUL", [given(1, 256, 1), given(1, 1, 8)], ((1, 256, 8), F)))
    assert refusing(made) == ["2.14", "2.15", "2.16", "2.17"]


def test_a_depthwise_convolution_multiplies_many_channels_from_litert_2_1_0_on() -> None:
    attrs = {"stride_w": 1, "stride_h": 1, "padding": "SAME", "depth_multiplier": 2}
    inputs = [given(1, 9, 7, 8), constant(1, 3, 3, 16), constant(16)]
    made = model(op("DEPTHWISE_CONV_2D", inputs, ((1, 9, 7, 16), F), **attrs))
    assert refusing(made) == list(ASKED[:5])


def test_relu_0_to_1_came_with_litert_2_1_0() -> None:
    assert refusing(model(op("RELU_0_TO_1", [given(*S)], (S, F)))) == list(ASKED[:5])


def test_selecting_from_matrices_was_put_right_in_litert_2_1_6() -> None:
    """Until then the source rejects constant ones and says that it rejects the others."""
    assert refusing(select(constant(5, 8), given(5, 8))) == list(ASKED[1:])
    assert refusing(select(constant(5, 8), constant(5, 8))) == list(ASKED[1:-1])
    assert refusing(select(given(5, 8), given(5, 8))) == ["litert-2.1.6"]


@pytest.mark.parametrize(
    ("release", "known"),
    [
        ("2.16.2", "2.16"),
        ("2.18.1", "2.17"),
        ("2.20.0", "2.17"),
        ("2.21.0", "2.21"),
        ("litert-1.4.1", "2.21"),
        ("litert-2.0.3", "2.21"),
        ("litert-2.1.5", "litert-2.1.0"),
        ("litert-2.3.0", "litert-2.1.6"),
        ("nightly", "litert-2.1.6"),
    ],
)
def test_a_release_has_the_rules_of_the_newest_known_before_it(release: str, known: str) -> None:
    assert RULES.under(release).release == known


@pytest.mark.parametrize(
    ("release", "why"),
    [
        ("2.13.1", "there are no rules of tflite-gpu for 2.13.1; there are for 2.14,"),
        ("litert-1.0.1", "LiteRT's repository held no source of it yet; ask for 2.17 and litert-1.1"),
        ("play-services", "nothing public says by which; ask for 2.17, 2.21 and litert-2.1.6;"),
        ("litert", "litert is no version; tflite-gpu has rules for 2.14,"),
    ],
)
def test_a_release_that_nobody_knows_is_refused(release: str, why: str) -> None:
    with pytest.raises(BadConfig) as refused:
        RULES.under(release)
    assert why in str(refused.value)


def test_litert_gpu_has_no_such_names() -> None:
    with pytest.raises(BadConfig, match=r"litert-2\.1\.5 is no version; litert-gpu has rules for"):
        predict(select(given(5, 8), given(5, 8)), "litert-gpu", "litert-2.1.5")
