"""`nearsay index improve --encoder`, with an encoder that is really trained."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from nearsay.app.cli import main
from nearsay.data.sentence_examples.learned_texts import LearnedTexts
from nearsay.indexer import Library
from nearsay.indexer.catalogue.judgements import Part, in_part
from nearsay.training.encoder.folder import EncoderFolder

pytestmark = pytest.mark.usefixtures("short_runs")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]


@pytest.mark.long
def test_an_encoder_is_trained_measured_and_kept_only_if_it_is_recommended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_bert: Callable[..., Path]
) -> None:
    monkeypatch.chdir(tmp_path)
    save_bert("mine", WORDS, hidden_size=16, max_position_embeddings=24)
    random = np.random.default_rng(0)
    letters, others = list("abcdefghij"), list("klmnopqrst")
    rows = [random.choice(10, 6).tolist() for _ in range(40)]
    place = {"device": "cpu", "precision": "float32"}
    with Library.open("library", **place) as library:
        collection = library.collection("letters", encoder="mine")
        collection.add_rows(
            {"id": f"d{at}", "text": " ".join(letters[one] for one in row) + "."}
            for at, row in enumerate(rows)
        )
        for at, row in enumerate(rows):  # asked for by other letters
            collection.judgements.add(" ".join(others[one] for one in row), f"d{at}", True)
        judged = collection.judgements.list()
    arguments = ["--encoder", "tuned", "--device", "cpu", "--precision", "float32", "--json"]
    done = CliRunner().invoke(main, ["index", "improve", "letters", *arguments])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    row = found["candidates"][-1]
    assert row["name"] == "encoder"
    assert row["learned"] is not None
    assert row["milliseconds"] > 0
    assert EncoderFolder(Path("tuned")).path.is_dir()
    assert "judgements of letters" in done.stderr
    record = LearnedTexts.of("tuned")
    train, test = ({one.query for one in in_part(judged, part)} for part in Part)
    learned = {query for query in train if record.has(query)}
    assert not any(record.has(query) for query in test)
    assert 0.5 < len(learned) / len(train) < 0.95  # the others measured it
    with Library.open("library", **place) as library:
        states = [str(each.state) for each in library.collection("letters").generations()]
    assert states == (["live", "ready"] if found["recommended"] == "encoder" else ["live"])
