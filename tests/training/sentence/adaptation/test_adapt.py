"""Encoders adapted from end to end, on a very small BERT."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.judged.bootstrap import Interval
from nearsay.training.evaluation.judged.kind import EvaluationKind
from nearsay.training.evaluation.judged.outcome import Outcome, mean_of_drawn
from nearsay.training.run.watch import Watch
from nearsay.training.sentence.adaptation import adapt
from nearsay.training.sentence.adaptation.adapt import Adaptation, adapt_encoder, is_better
from nearsay.training.sentence.adaptation.listwise import StepSizes
from nearsay.training.sentence.adaptation.pseudo_queries import UnlabelledCorpus
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.result import Change
from nearsay.training.sentence.precision import Precision

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SHORT = Adaptation(
    minutes=None,
    steps=6,
    learning_rate=3e-3,
    held_out=8,
    sizes=StepSizes(queries=12, passages=4, general=4),
    evaluations=2,
    precision=Precision.FLOAT32,
)


@pytest.fixture
def corpus() -> UnlabelledCorpus:
    random = np.random.default_rng(0)
    texts = tuple(" ".join(random.choice(list(LETTERS), 7)) for _ in range(40))
    return UnlabelledCorpus("letters", texts, ("",) * 40, tuple(f"d{n}" for n in range(40)))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def outcome(kind: EvaluationKind, figure: float) -> Outcome:
    return Outcome(
        f"a {kind} set", kind, {"figure": figure}, "figure", 10, 0, 0.0, mean_of_drawn(np.ones(10))
    )


def change(gained: float, *, sure: bool = True, kind: EvaluationKind = EvaluationKind.RETRIEVAL) -> Change:
    interval = Interval(gained - 1e-3, gained + 1e-3) if sure else Interval(gained - 1, gained + 1)
    return Change(outcome(kind, 0.5), outcome(kind, 0.5 + gained), interval)


def test_an_encoder_is_kept_only_if_the_held_out_gain_is_no_chance() -> None:
    assert is_better([change(0.02)])
    assert not is_better([change(0.02, sure=False)])
    assert not is_better([change(-0.02)])


def test_no_other_set_may_lose_more_than_a_hundredth_and_a_correlation_no_more_than_a_point() -> None:
    assert is_better([change(0.02), change(-0.009)])
    assert not is_better([change(0.02), change(-0.011)])
    assert is_better([change(0.02), change(-0.9, kind=EvaluationKind.STS)])
    assert not is_better([change(0.02), change(-1.1, kind=EvaluationKind.STS)])


def test_what_is_better_becomes_an_encoder_that_is_an_average_with_the_original(
    corpus: UnlabelledCorpus, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, both = tmp_path, []
    monkeypatch.setattr(adapt, "is_better", lambda _: True)
    for shares in ((1.0,), (0.25,)):
        monkeypatch.setattr(adapt, "_SHARES", shares)
        out = tmp_path / f"out-{shares[0]}"
        result = adapt_encoder(corpus, out, base=tiny_folder, options=SHORT, device="cpu")
        assert (result.adapted, result.share, result.steps) == (True, shares[0], 6)
        both.append(weights(out))
    original = weights(tiny_folder)
    moved = sum((both[0][name] - tensor).abs().sum().item() for name, tensor in original.items())
    assert moved > 1
    for name, tensor in both[1].items():
        torch.testing.assert_close(tensor, torch.lerp(original[name], both[0][name], 0.25))
    loaded = Encoder.load(out, device="cpu", precision=Precision.FLOAT32)
    assert "adapted without labels to 40 passages of letters" in loaded.lineage[-2]
    told = json.loads((out / "run" / "result.json").read_text("utf-8"))["evaluations"]
    assert [one["set"] for one in told] == ["held-out pseudo-queries", "general pairs", "general search"]


def test_what_is_not_better_leaves_no_encoder(
    corpus: UnlabelledCorpus, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr(adapt, "is_better", lambda _: False)
    result = adapt_encoder(corpus, out, base=tiny_folder, options=SHORT, device="cpu")
    assert (result.finished, result.adapted, result.share) == (True, False, 0.0)
    assert {path.name for path in out.iterdir()} == {"run"}
    assert {"config.json", "metrics.jsonl", "result.json"} == {path.name for path in (out / "run").iterdir()}


def test_it_learns_to_rank_as_the_teacher_does(
    corpus: UnlabelledCorpus, tiny_folder: Path, tmp_path: Path
) -> None:
    losses: list[float] = []
    options = Adaptation(
        **{
            name: getattr(SHORT, name)
            for name in ("minutes", "learning_rate", "held_out", "sizes", "precision")
        },
        steps=40,
        anchor=0.0,
        replay=0.0,
        patience=1_000,  # what is held out does not end it
    )
    watch = Watch(listener=lambda look: losses.append(look.metrics.get("ranking_loss", np.nan)))
    adapt_encoder(corpus, tmp_path / "out", base=tiny_folder, options=options, device="cpu", watch=watch)
    found = [loss for loss in losses if not np.isnan(loss)]
    assert found[-1] < 0.9 * found[0]


def test_a_stopped_run_resumes_to_the_same_weights(
    corpus: UnlabelledCorpus, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapt, "is_better", lambda _: True)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    adapt_encoder(corpus, whole, base=tiny_folder, options=SHORT, device="cpu")
    stop = Watch(stop=lambda: True)
    first = adapt_encoder(corpus, parts, base=tiny_folder, options=SHORT, device="cpu", watch=stop)
    assert (first.finished, first.steps) == (False, 1)
    assert adapt_encoder(corpus, parts, base=tiny_folder, options=SHORT, device="cpu").finished
    for name, tensor in weights(whole).items():
        torch.testing.assert_close(weights(parts)[name], tensor, atol=0, rtol=0)


def test_steps_and_minutes_exclude_each_other() -> None:
    with pytest.raises(BadInputError, match="either"):
        Adaptation(minutes=None)
    with pytest.raises(BadInputError, match="either"):
        Adaptation(steps=3)
