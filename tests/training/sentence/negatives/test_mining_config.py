"""The choices of mining."""

import math
from typing import Any

import pytest

from nearsay.data.errors import BadInputError
from nearsay.training.sentence.negatives.mining_corpus import MiningConfig, NegativeSampling


def test_the_default_margin_is_that_of_nv_retriever() -> None:
    assert MiningConfig().relative_margin == 0.05
    assert MiningConfig().absolute_margin is None


def test_choices_may_be_given_by_their_names() -> None:
    as_from_a_file: dict[str, Any] = {"sampling": "random"}
    config = MiningConfig(**as_from_a_file)
    assert config.sampling is NegativeSampling.RANDOM


@pytest.mark.parametrize(
    ("choices", "wanted"),
    [
        ({"per_anchor": 0}, "0 negatives"),
        ({"first_rank": 0}, "ranks 0-100 are no range"),
        ({"first_rank": 9, "last_rank": 8}, "ranks 9-8 are no range"),
        ({"last_rank": 10_001}, "ranks 1-10001 are no range"),
        ({"first_rank": 10, "last_rank": 11}, "ranks 10-11 hold fewer"),
        ({"relative_margin": 1.5}, "relative margin is 1.5"),
        ({"relative_margin": -0.1}, "relative margin is -0.1"),
        ({"absolute_margin": math.nan}, "absolute margin is nan"),
        ({"min_score": 0.9, "max_score": 0.3}, "0.9 and at most 0.3"),
        ({"seed": -1}, "the seed is -1"),
    ],
)
def test_what_cannot_be_is_refused_with_its_values(choices: dict[str, float], wanted: str) -> None:
    with pytest.raises(BadInputError, match=wanted.replace(".", r"\.")):
        MiningConfig(**choices)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("config", "columns"),
    [
        (MiningConfig(per_anchor=2), ("anchor", "positive", "negative_1", "negative_2")),
        (MiningConfig(per_anchor=1), ("anchor", "positive", "negative")),
        (MiningConfig(per_anchor=2, triplets=True), ("anchor", "positive", "negative")),
    ],
)
def test_columns_have_the_names_that_training_guesses(config: MiningConfig, columns: tuple[str, ...]) -> None:
    assert config.columns == columns


def test_an_anchor_of_triplets_needs_one_negative() -> None:
    assert MiningConfig(per_anchor=3).least == 3
    assert MiningConfig(per_anchor=3, triplets=True).least == 1
