"""Which layers are taken, and what is made of them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.training.bert.layers import LayerChoice, LayerRule, layer_choices


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("last", (6,)),
        ("second-to-last", (5,)),
        ("sum-last-4", (3, 4, 5, 6)),
        ("concat-last-4", (3, 4, 5, 6)),
        ("sum-all", (1, 2, 3, 4, 5, 6)),
        ("0", (0,)),
        ("6", (6,)),
        (" Last ", (6,)),
        ("03", (3,)),
    ],
)
def test_each_choice_takes_its_layers_of_six(text: str, taken: tuple[int, ...]) -> None:
    assert LayerChoice.parse(text).taken(6) == taken


@pytest.mark.parametrize("text", ["", "first", "-1", "1.0", "last 4", "1-3", "٣", "sum_all", "99999999"])
def test_what_names_no_layers_is_told_what_there_is(text: str) -> None:
    with pytest.raises(BadInputError) as caught:
        LayerChoice.parse(text)
    assert repr(text) in str(caught.value)
    for rule in LayerRule:
        assert rule in str(caught.value)
    assert "0 for the embeddings" in str(caught.value)


@given(st.text(max_size=12) | st.sampled_from(list(LayerRule)) | st.integers(0, 99).map(str))
def test_any_text_is_a_choice_that_reads_back_or_a_known_error(text: str) -> None:
    try:
        choice = LayerChoice.parse(text)
    except BadInputError:
        return
    assert LayerChoice.parse(str(choice)) == choice


@pytest.mark.parametrize(
    ("text", "layers", "wanted"),
    [
        ("13", 6, ("no layer 13", "mine has 6", "0", "to 6", "last")),
        ("sum-last-4", 3, ("sum-last-4", "needs 4", "mine has 3", 0)),
        ("concat-last-4", 2, ("concat-last-4", "needs 4", "mine has 2")),
        ("second-to-last", 1, ("second-to-last", "needs 2", "mine has 1")),
    ],
)
def test_layers_that_a_model_lacks_are_refused_with_its_range(
    text: str, layers: int, wanted: tuple[object, ...]
) -> None:
    choice = LayerChoice.parse(text)
    assert not choice.fits(layers)
    with pytest.raises(BadInputError) as caught:
        choice.taken(layers, name="mine")
    assert str(caught.value) == Naming(*wanted)


def test_layers_at_the_border_are_taken() -> None:
    assert LayerChoice.parse("sum-last-4").taken(4) == (1, 2, 3, 4)
    assert LayerChoice.parse("second-to-last").taken(2) == (1,)
    assert LayerChoice.parse("sum-all").taken(1) == (1,)


def test_sums_and_concatenation_worked_by_hand() -> None:
    states = [torch.tensor([[float(layer), 10.0 * layer]]) for layer in (3, 4, 5, 6)]
    assert LayerChoice.parse("sum-last-4").combined(states).tolist() == [[18, 180]]
    assert LayerChoice.parse("sum-all").combined(states[:2]).tolist() == [[7, 70]]
    assert LayerChoice.parse("concat-last-4").combined(states).tolist() == [[3, 30, 4, 40, 5, 50, 6, 60]]
    assert LayerChoice.parse("last").combined(states[3:]).tolist() == [[6, 60]]


def test_only_concatenation_makes_vectors_wider() -> None:
    widths = {str(choice): choice.width(384) for choice in layer_choices(6)}
    assert widths.pop("concat-last-4") == 1536
    assert set(widths.values()) == {384}


def test_every_choice_that_differs_is_listed_and_fits() -> None:
    assert [str(choice) for choice in layer_choices(4)] == [
        *"01234",
        "sum-last-4",
        "concat-last-4",
        "sum-all",
    ]
    assert [str(choice) for choice in layer_choices(2)] == ["0", "1", "2", "sum-all"]


def test_a_choice_is_by_rule_or_by_number() -> None:
    with pytest.raises(ValueError, match="give one of the two"):
        LayerChoice()
    with pytest.raises(ValueError, match="give one of the two"):
        LayerChoice(LayerRule.LAST, 3)
    with pytest.raises(ValueError, match="below 0"):
        LayerChoice(number=-1)
