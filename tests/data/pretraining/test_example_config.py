"""The choices of packing and masking."""

import pytest

from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.example_config import ExampleConfig, Masking, Packing


@pytest.mark.parametrize(("length", "most"), [(128, 20), (512, 77), (64, 10), (5, 1)])
def test_the_most_predictions_go_with_the_length(length: int, most: int) -> None:
    assert ExampleConfig(length=length).most_predictions == most
    assert ExampleConfig(length=length, max_predictions=3).most_predictions == 3


def test_all_is_predicted_where_nothing_is_masked() -> None:
    assert ExampleConfig(masked_share=0.2).predicted_share == 0.2
    assert ExampleConfig(packing=Packing.FULL_SENTENCES, masking=Masking.CAUSAL).predicted_share == 1.0


def test_names_become_choices() -> None:
    config = ExampleConfig(packing="full-sentences", masking="spans")
    assert config.packing is Packing.FULL_SENTENCES
    assert config.masking is Masking.SPANS


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"packing": "tight"}, "packing .*'tight'.*sentence-pairs, full-sentences"),
        ({"masking": "all"}, "masking .*'all'.*tokens, whole-words, spans"),
        ({"length": 4}, r"\b4 tokens.*sentence-pairs .*\b5"),
        ({"length": 2, "packing": "full-sentences"}, "full-sentences need 3 or more"),
        ({"masked_share": 0.0}, "the masked share is 0.0"),
        ({"masked_share": 1.0}, "the masked share is 1.0"),
        ({"max_predictions": 0}, "max_predictions is 0"),
        ({"short_share": 1.5}, "short_share is 1.5"),
        ({"random_share": -0.1}, "random_share is -0.1"),
        ({"span_p": 1.0}, "span_p is 1.0"),
        ({"span_max": 0}, "span_max is 0 words"),
        ({"masking": "causal"}, "causal .*--no-nsp .*full-sentences"),
    ],
)
def test_what_cannot_be_is_refused_with_its_value(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        ExampleConfig(**wrong)
