"""Which weights decay."""

from torch import nn
from transformers import BertConfig, BertForPreTraining

from nearsay.training.run.loop import parameter_groups


def test_matrices_decay_and_biases_and_norms_do_not() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Embedding(4, 3))
    decaying, still = parameter_groups(model, 0.25)
    assert decaying["weight_decay"] == 0.25
    assert still["weight_decay"] == 0.0
    assert [id(p) for p in decaying["params"]] == [id(model[0].weight), id(model[2].weight)]
    assert [id(p) for p in still["params"]] == [id(model[0].bias), id(model[1].weight), id(model[1].bias)]


def test_frozen_weights_are_left_out() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    model[0].requires_grad_(False)
    assert [len(group["params"]) for group in parameter_groups(model, 0.1)] == [1, 1]


def test_berts_groups_are_those_of_its_authors_code_and_tied_weights_are_there_once() -> None:
    config = BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=8,
    )
    model = BertForPreTraining(config)
    decaying, still = parameter_groups(model, 0.01)
    excluded = ("LayerNorm", "layer_norm", "bias")  # google-research/bert, optimization.py
    named = list(model.named_parameters())
    assert {id(p) for p in still["params"]} == {id(p) for n, p in named if any(e in n for e in excluded)}
    assert len(decaying["params"]) + len(still["params"]) == len(named)
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    assert sum(p is model.cls.predictions.decoder.weight for p in decaying["params"]) == 1
