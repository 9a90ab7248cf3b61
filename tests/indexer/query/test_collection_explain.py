import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nearsay.data.errors import BadInputError
from nearsay.indexer import Library
from nearsay.indexer.catalogue import collections, refinements
from nearsay.indexer.catalogue.judgements import SearchMode
from nearsay.indexer.catalogue.refinements import Refinement
from nearsay.training.sentence.query_adapter import QueryAdapter


@pytest.fixture
def trees(library: Library):
    collection = library.collection("trees")
    collection.add_rows(
        [
            {"id": "oak", "title": "Oak", "text": "An oak is tall. It drops acorns in autumn."},
            {"id": "elm", "title": "", "text": "The elm"},
        ]
    )
    return collection


def test_hits_are_explained_on_demand_with_the_scores_that_they_have(trees) -> None:
    hits = trees.search("old oak", mode=SearchMode.DENSE)
    explanations = trees.explain("old oak", hits)
    assert len(explanations) == len(hits) == 2
    for hit, explanation in zip(hits, explanations, strict=True):
        assert explanation.score == pytest.approx(hit.scores.dense)
        shares = [word.share for word in (*explanation.words, *explanation.title)]
        assert sum(shares) + explanation.rest + explanation.rounding == pytest.approx(explanation.score)
        assert abs(explanation.rounding) < 1e-6
    oak = explanations[[hit.id for hit in hits].index("oak")]
    assert oak.matched == ("oak",)
    assert oak.sentence is not None


def test_hits_of_a_refined_search_are_explained_by_what_they_were_found_by(trees) -> None:
    adapter = QueryAdapter(np.random.default_rng(3).normal(0, 0.5, (8, 8)).astype(np.float32))
    plain = trees.search("old oak", mode="dense")
    with trees.library.store.database.writing() as connection:
        collection_id = trees.snapshot().collection.id
        refinements.add(connection, collection_id, 1, Refinement(0, adapter, None, {}, ""))
        collections.changed(connection, collection_id)
    trees.snapshot()  # what another wrote may be searched a tenth of a second later
    hits = trees.search("old oak", mode="dense", explain=True)
    assert abs(hits[0].score - plain[0].score) > 0.01
    for hit, explanation in zip(hits, trees.explain("old oak", hits), strict=True):
        assert hit.explanation == explanation
        assert explanation.score == hit.scores.dense
        assert abs(explanation.rounding) < 1e-6


def test_hits_of_another_encoder_are_not_explained(trees) -> None:
    (hit, *_) = trees.search("oak", mode=SearchMode.DENSE)
    foreign = replace(hit, lineage=replace(hit.lineage, fingerprint="other", encoder="other"))
    with pytest.raises(BadInputError, match=r"another encoder \(other, generation 1\)"):
        trees.explain("oak", [foreign])


@pytest.mark.parametrize(("fields", "lacks"), [(["title"], "text"), (["text"], "title"), ([], "text")])
def test_hits_without_what_was_encoded_are_not_explained(trees, fields: list[str], lacks: str) -> None:
    hits = trees.search("old oak", mode=SearchMode.DENSE, fields=fields)
    with pytest.raises(BadInputError, match=lacks):
        trees.explain("old oak", hits)
    carrying = trees.search("old oak", mode=SearchMode.DENSE, fields=["title", "text"])
    assert len(trees.explain("old oak", carrying)) == 2


def test_a_hit_whose_document_has_a_title_since_is_to_be_searched_for_again(library: Library) -> None:
    notes = library.collection("notes")
    notes.add_rows([{"id": "oak", "text": "An oak is tall."}])
    hits = notes.search("oak", mode=SearchMode.DENSE)
    notes.add_rows([{"id": "oak", "title": "Oak", "text": "An oak is tall."}])
    with pytest.raises(BadInputError, match="the document has changed since"):
        notes.explain("oak", hits)


def test_no_hits_have_no_explanations(trees) -> None:
    assert trees.explain("oak", []) == []


@pytest.mark.long
def test_a_search_with_explanations_imports_no_torch(tmp_path: Path) -> None:
    rows = [
        {"id": "oak", "title": "Oak", "text": "An oak is tall. It drops acorns in autumn."},
        {"id": "elm", "title": "", "text": "The elm grows by the water."},
    ]
    with Library.open(tmp_path / "library") as library:
        library.collection("trees").add_rows(rows)
    script = (
        "import sys\n"
        "from nearsay.indexer import Library\n"
        "with Library.open(sys.argv[1]) as library:\n"
        "    hits = library.collection('trees').search('old oak', explain=True)\n"
        "assert hits[0].explanation.sentence.text == 'An oak is tall.', hits[0].explanation\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'ray'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "library")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
