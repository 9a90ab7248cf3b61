"""The encoders that the page lists."""

import json
from pathlib import Path

import pytest

from nearsay.app.runs import Run, RunKind, RunState
from nearsay.app.ui.encoders.known import entries, facts_of, figures_of, stamp
from nearsay.data.errors import NearsayError
from nearsay.indexer.catalogue.encoder_uses import EncoderUse, KnownEncoder
from nearsay.indexer.catalogue.generations import EncoderRow, GenerationState
from nearsay.training.sentence.bundled import BUNDLED_NAME


def _known(source: str, *uses: EncoderUse) -> KnownEncoder:
    return KnownEncoder(EncoderRow(1, Path(source).name, source, "f" * 64, 32, 14, True, ()), uses)


def _run(number: int, library: Path, kind: RunKind, *arguments: str, state: RunState = RunState.DONE) -> Run:
    return Run(
        number=number,
        kind=kind,
        title="",
        arguments=arguments,
        working_folder=str(library),
        collection=None,
        product=None,
        resumes=None,
        state=state,
        pid=None,
        host=None,
        created_at="2026-01-02",
        started_at=None,
        ended_at=None,
        exit_code=0,
        message=None,
        library=library,
    )


def test_the_bundled_encoder_is_there_from_the_start(tmp_path):
    (entry,) = entries(tmp_path, [], [])
    assert (entry.name, entry.origin, entry.there, entry.uses) == (BUNDLED_NAME, "bundled", True, ())


def test_an_encoder_is_listed_once_with_its_run_and_its_uses(made_encoder):
    library = made_encoder.parents[1]
    use = EncoderUse("papers", 2, GenerationState.LIVE)
    runs = [_run(3, library, RunKind.SENTENCE, "train", "sentence", "x.tsv", "--out", str(made_encoder))]
    bundled, mine = entries(library, [_known(str(made_encoder), use)], runs)
    assert (mine.name, mine.origin, mine.run, mine.live_in) == ("mine", "made here", 3, ("papers",))
    assert bundled.live_in == ()


def test_an_encoder_of_a_run_is_listed_wherever_it_lies_but_no_run_that_failed(made_encoder, tmp_path):
    arguments = ("train", "sentence", "x.tsv", "--out", str(made_encoder))
    runs = [_run(2, tmp_path, RunKind.SENTENCE, *arguments)]
    assert [entry.origin for entry in entries(tmp_path, [], runs)] == ["bundled", "made by a run"]
    failed = [_run(2, tmp_path, RunKind.SENTENCE, *arguments, state=RunState.FAILED)]
    assert len(entries(tmp_path, [], failed)) == 1


def test_an_encoder_whose_folder_is_gone_is_listed_all_the_same(tmp_path):
    _, gone = entries(tmp_path, [_known("/nowhere/mine")], [])
    assert not gone.there
    with pytest.raises(NearsayError):
        facts_of("/nowhere/mine")
    assert stamp("/nowhere/mine") == 0


def test_the_facts_are_read_from_the_folder(made_encoder):
    from nearsay.training.sentence.encoder import Encoder

    facts = facts_of(str(made_encoder))
    encoder = Encoder.load(made_encoder, device="cpu")
    assert (facts.dimension, facts.max_tokens) == (encoder.dimension, encoder.max_tokens)
    assert facts.fingerprint == encoder.fingerprint
    assert facts.lineage == encoder.lineage
    assert facts.bytes > 10_000
    assert [row["verdict"] for row in facts.changes] == ["better"]


def test_the_limit_is_found_where_a_training_writes_it(made_encoder):
    (made_encoder / "sentence_bert_config.json").write_text("{}", "utf-8")
    settings = made_encoder / "tokenizer_config.json"
    for limit, told in ((40, 38), (10**30, None)):
        settings.write_text(json.dumps({"model_max_length": limit}), "utf-8")
        assert facts_of(str(made_encoder)).max_tokens == told


def test_the_bundled_encoders_facts():
    facts = facts_of(BUNDLED_NAME)
    assert (facts.dimension, facts.max_tokens, facts.changes) == (384, 254, ())


def test_the_newest_figure_on_a_set_is_told(tmp_path, monkeypatch):
    def output(self, first=None):
        return [{"encoder": "e", "name": "s", "main": "map", "map": self.number / 10, "interval": [0.0, 1.0]}]

    monkeypatch.setattr(Run, "output", output)
    own = ("evaluate", "reranking", "x", "--encoder", "/e")
    runs = [_run(number, tmp_path, RunKind.EVALUATE, *own) for number in (3, 2)]
    runs.append(_run(1, tmp_path, RunKind.EVALUATE, "evaluate", "reranking", "x"))
    assert [row["MAP"] for row in figures_of("/e", runs)] == ["0.3000"]
    assert [row["MAP"] for row in figures_of(BUNDLED_NAME, runs)] == ["0.1000"]
