"""The sizes of a BERT."""

import pytest
import torch
from transformers import BertModel

from nearsay.data.errors import BadInputError
from nearsay.training.bert.published_sizes import PUBLISHED_SIZES
from nearsay.training.bert.sizes import BertSize

# Million parameters: Devlin et al. 2019 for base and large, Turc et al. 2019, table 1, for the others
PUBLISHED_MILLIONS = {"tiny": 4.4, "mini": 11.3, "small": 29.1, "medium": 41.7, "base": 110.1, "large": 340.0}


@pytest.mark.parametrize("name", PUBLISHED_SIZES)
def test_published_sizes_have_their_published_numbers_of_parameters(name: str) -> None:
    with torch.device("meta"):
        model = BertModel(BertSize.parse(name).config(30_522))
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    assert millions == pytest.approx(PUBLISHED_MILLIONS[name], rel=0.02)


@pytest.mark.parametrize("name", PUBLISHED_SIZES)
def test_the_weights_of_a_size_are_counted(name: str) -> None:
    size = BertSize.parse(name)
    with torch.device("meta"):
        model = BertModel(size.config(30_522), add_pooling_layer=False)
    assert size.weights(30_522) == pytest.approx(sum(one.numel() for one in model.parameters()), rel=0.01)


def test_any_size_can_be_asked_for() -> None:
    config = BertSize.parse("6x384", positions=256, dropout=0.0).config(1000)
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (6, 384, 6)
    assert (config.intermediate_size, config.max_position_embeddings) == (1536, 256)
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0.0
    odd = BertSize(3, 50, heads=5, feed_forward=70).config(10)
    assert (odd.num_attention_heads, odd.intermediate_size) == (5, 70)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BertSize.parse("huge"), "tiny, mini, small, medium, base, large, .*LAYERSxWIDTH"),
        (lambda: BertSize.parse("2x100"), r"Take 64 or 128$"),
        (lambda: BertSize.parse("2x40"), r"Take 64$"),
        (lambda: BertSize(2, 100, heads=3), "Take a number that divides it"),
        (lambda: BertSize(0, 64), "give 1 or more"),
        (lambda: BertSize(1, 64, dropout=1.0), "from 0 to below 1"),
    ],
)
def test_a_size_that_cannot_be_built_is_refused_with_its_remedy(make: object, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        make()  # type: ignore[operator]
