"""Low-rank adapters: trained beside the weights, merged into them, and told in the folder."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from naming import Naming
from sentence_transformers import SentenceTransformer

from nearsay.data.errors import BadInputError, MissingExtraError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning import train_encoder
from nearsay.training.sentence.fine_tuning.settings import EncoderStructure, SentenceTraining, TrainingSet
from nearsay.training.sentence.fine_tuning.structure import build_encoder
from nearsay.training.sentence.fine_tuning.train_encoder import (
    add_adapters,
    merge_adapters,
    train_sentence_encoder,
)
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind

TEXTS = ["the cat sat on the mat", "a dog"]


def options(**others: Any) -> SentenceTraining:
    told = {"epochs": 4, "batch": 8, "learning_rate": 1e-2, "precision": Precision.FLOAT32, "lora_rank": 4}
    return SentenceTraining(**told | others)


def trained(
    examples: SentenceExamples,
    base: Path,
    out: Path,
    chosen: SentenceTraining,
    *,
    objective: ObjectiveKind = ObjectiveKind.COSENT,
    watch: Watch | None = None,
) -> bool:
    sets = [TrainingSet(examples, ObjectiveConfig(objective))]
    return train_sentence_encoder(sets, out, base=base, options=chosen, device="cpu", watch=watch).finished


@pytest.mark.long
def test_the_base_stays_as_it_is_until_the_merge_and_the_folder_gives_the_trained_vectors(
    scored: SentenceExamples, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def merge(adapters: Any) -> None:
        layer = adapters.model.encoder.layer[0]
        query = layer.attention.self.query
        seen["weights"] = (
            query.base_layer.weight.detach().clone(),
            layer.output.LayerNorm.weight.detach().clone(),
        )
        seen["moved"] = query.lora_B["default"].weight.detach().abs().max()
        seen["trained"] = {name for name, one in adapters.model.named_parameters() if one.requires_grad}
        merge_adapters(adapters)

    monkeypatch.setattr(train_encoder, "merge_adapters", merge)
    out, said = tmp_path / "out", []
    assert trained(scored, tiny_folder, out, options(), watch=Watch(report=said.append))
    base = SentenceTransformer(str(tiny_folder), device="cpu")
    layer = base[0].auto_model.encoder.layer[0]
    np.testing.assert_array_equal(seen["weights"][0], layer.attention.self.query.weight.detach())
    np.testing.assert_array_equal(seen["weights"][1], layer.output.LayerNorm.weight.detach())
    assert seen["moved"] > 0
    assert seen["trained"]
    assert all(".lora_" in name for name in seen["trained"])
    assert any(re.fullmatch(r"LoRA .*[\d,]+ parameters; [\d,]+ .*frozen", note) for note in said)
    losses = [float(line["loss"]) for line in read_metrics(out / "run" / "metrics.jsonl")]
    assert np.mean(losses[-4:]) < 0.8 * np.mean(losses[:4])
    merged = SentenceTransformer(str(out), device="cpu")
    assert not any("lora" in name for name, _ in merged.named_parameters())
    vectors = merged.encode(TEXTS)
    assert np.abs(vectors - base.encode(TEXTS)).max() > 0.01
    ours = Encoder.load(out, device="cpu", precision=Precision.FLOAT32)
    np.testing.assert_allclose(ours.encode(TEXTS), vectors, atol=1e-5)


def test_merged_weights_give_the_vectors_of_weights_with_adapters(tiny_folder: Path) -> None:
    encoder = build_encoder(EncoderFolder(tiny_folder), EncoderStructure(), device="cpu", seed=0)
    before = encoder.encode(TEXTS)
    names = [name for name, _ in encoder.named_parameters()]
    adapters = add_adapters(encoder, options(lora_targets="query, value", lora_alpha=16), name="tiny")
    assert adapters is not None
    np.testing.assert_allclose(encoder.encode(TEXTS), before, atol=1e-6)  # B is zero at first
    found = [name for name, one in encoder.named_parameters() if one.requires_grad]
    assert found
    assert all(".query." in name or ".value." in name for name in found)
    for name, parameter in encoder.named_parameters():
        if "lora_B" in name:
            parameter.data.fill_(0.1)
    with_adapters = encoder.encode(TEXTS)
    assert np.abs(with_adapters - before).max() > 1e-3
    merge_adapters(adapters)
    np.testing.assert_allclose(encoder.encode(TEXTS), with_adapters, atol=1e-5)
    assert [name for name, one in encoder.named_parameters() if one.requires_grad] == names


@pytest.mark.long
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been_and_the_folder_says_what_was_done(
    scored: SentenceExamples, tiny_folder: Path, tmp_path: Path
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert trained(scored, tiny_folder, whole, options())
    asked = iter([False, False, True, *[False] * 100])
    assert not trained(scored, tiny_folder, parts, options(), watch=Watch(stop=lambda: next(asked)))
    with pytest.raises(BadInputError, match="lora_rank: 4 there, 2 now"):
        trained(scored, tiny_folder, parts, options(lora_rank=2))
    assert trained(scored, tiny_folder, parts, options())
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()
    config = json.loads((whole / "run" / "config.json").read_text("utf-8"))
    assert (config["lora_rank"], config["lora_alpha"], config["lora_targets"]) == (4, 8, "all-linear")
    assert config["base"] == str(tiny_folder)
    card = (whole / "README.md").read_text("utf-8")
    assert card == Naming("rank 4", "alpha 8", "all-linear")
    assert "LoRA of rank 4" in Encoder.load(whole, device="cpu").lineage[-2]


def test_what_lora_cannot_train_is_refused(
    examples_of: Callable[..., SentenceExamples], scored: SentenceExamples, tiny_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for targets in ("nothing", "query,nothing"):
        with pytest.raises(BadInputError, match=r"linear layers nothing\..*: .*query"):
            trained(scored, tiny_folder, out, options(lora_targets=targets))
    with pytest.raises(BadInputError, match=r"linear layers LayerNorm\..*: .*query"):
        trained(scored, tiny_folder, out, options(lora_targets="LayerNorm"))
    texts = examples_of(ExampleKind.TEXTS, [("the cat",), ("a dog",)])
    with pytest.raises(BadInputError, match=r"tsdae.*--lora-rank"):
        trained(texts, tiny_folder, out, options(), objective=ObjectiveKind.TSDAE)
    with pytest.raises(BadInputError, match="LoRA rank is 0"):
        options(lora_rank=0)
    with pytest.raises(BadInputError, match="no rank"):
        options(lora_rank=None, lora_alpha=8)
    with pytest.raises(BadInputError, match=r"1000000000000.*\b32 or less"):
        trained(scored, tiny_folder, out, options(lora_rank=10**12))
    assert not out.exists()


def test_without_peft_the_install_line_is_given(
    scored: SentenceExamples, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtraError, match=r"nearsay\[lora\]"):
        trained(scored, tiny_folder, tmp_path / "out", options())
