"""Which parts of a BERT are trained."""

from pathlib import Path

import pytest

from nearsay.data.errors import BadInputError
from nearsay.training.bert.bert_folder import load_bert
from nearsay.training.bert.heads.fine_tuning import FreezeRule, Freezing, freeze
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.bert.heads.network import HeadKind, HeadNetwork, load_network

LABELS = LabelSet(("no", "yes"))


@pytest.fixture
def network(tiny_folder: Path) -> HeadNetwork:
    return load_network(load_bert(tiny_folder), HeadKind.CLASSIFIER, LABELS)


def trained(network: HeadNetwork) -> set[str]:
    """The parts with weights that are trained: embeddings, the number of a layer, pooler, classifier."""
    names = [name for name, weights in network.named_parameters() if weights.requires_grad]
    return {
        part for name in names for part in ("embeddings", "layer.0", "pooler", "classifier") if part in name
    }


@pytest.mark.parametrize(
    ("freezing", "parts"),
    [
        ("none", {"embeddings", "layer.0", "pooler", "classifier"}),
        ("0", {"layer.0", "pooler", "classifier"}),
        ("all-but-last", {"layer.0", "pooler", "classifier"}),
        ("1", {"pooler", "classifier"}),
        ("ALL", {"pooler", "classifier"}),
    ],
)
def test_what_is_above_the_frozen_layers_is_trained(
    network: HeadNetwork, freezing: str, parts: set[str]
) -> None:
    numbers = freeze(network, Freezing.parse(freezing))
    assert trained(network) == parts
    assert numbers == sum(weights.numel() for weights in network.parameters() if weights.requires_grad)


def test_frozen_parts_do_without_dropout_in_training(network: HeadNetwork) -> None:
    freeze(network, Freezing.parse("0"))
    network.train()
    bert = network.transformer.bert
    assert not bert.embeddings.dropout.training
    assert bert.encoder.layer[0].attention.self.dropout.training
    assert network.transformer.dropout.training


def test_rules_count_layers_from_below() -> None:
    assert Freezing(FreezeRule.ALL_BUT_LAST).frozen_layers(12) == 11
    assert Freezing(FreezeRule.ALL).frozen_layers(12) == 12
    assert Freezing().frozen_layers(12) is None
    assert Freezing(layers=5).frozen_layers(12) == 5
    assert [str(Freezing.parse(text)) for text in ("all-but-last", " 7 ")] == ["all-but-last", "7"]


@pytest.mark.parametrize("text", ["most", "", "-1", "1.5"])
def test_what_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="what to freeze"):
        Freezing.parse(text)


def test_more_layers_than_there_are_cannot_be_frozen(network: HeadNetwork) -> None:
    with pytest.raises(BadInputError, match=r"\b2 layers .*frozen.*\b1\."):
        freeze(network, Freezing.parse("2"))
