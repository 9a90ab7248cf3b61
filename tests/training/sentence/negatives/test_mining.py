"""Hard negatives, worked by hand and held against sentence-transformers' own mining."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import hard_negatives

from nearsay.data.errors import BadInputError
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.loading import load_model
from nearsay.training.sentence.negatives.candidates import MinedNegatives
from nearsay.training.sentence.negatives.mining import MiningStage, mine_negatives
from nearsay.training.sentence.negatives.mining_corpus import MiningConfig, MiningCorpus, NegativeSampling

# Cosine similarities to "walk": stroll .8, march .96, run .6, sit 0, fall -1; to "rest": nap .8, sit .8.
TABLE = {
    "walk": (1.0, 0.0, 0.0),
    "stroll": (0.8, 0.6, 0.0),
    "march": (0.96, 0.28, 0.0),
    "run": (0.6, 0.0, 0.8),
    "sit": (0.0, 0.8, 0.6),
    "fall": (-3.0, 0.0, 0.0),
    "rest": (0.0, 1.0, 0.0),
    "nap": (0.0, 0.8, -0.6),
}
PAIRS = [("walk", "stroll"), ("rest", "nap")]
CORPUS = ["stroll", "march", "run", "sit", "fall", "nap"]


@pytest.fixture
def mine(table_encoder: type) -> Callable[..., MinedNegatives]:
    """Mines the corpus above for the pairs above, or others."""

    def mine_it(
        pairs: Iterable[tuple[str, str]] = PAIRS,
        corpus: Sequence[str] = CORPUS,
        judge: Any = None,
        **choices: object,
    ) -> MinedNegatives:
        config = MiningConfig(**{"per_anchor": 1} | choices)  # type: ignore[arg-type]
        return mine_negatives(
            pairs, MiningCorpus.of("moves", corpus), table_encoder(TABLE), config, judge=judge
        )

    return mine_it


class ListJudge:
    """Scores the texts on its list 1 and others 0, and keeps what it was asked."""

    def __init__(self, *texts: str) -> None:
        self.name = "listing"
        self.high = set(texts)
        self.asked: list[tuple[str, str]] = []

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        self.asked += pairs
        return np.array([float(text in self.high) for _, text in pairs], dtype=np.float32)


def test_the_hardest_text_below_the_margin_is_taken(mine: Callable[..., MinedNegatives]) -> None:
    mined = mine()
    # walk: march (.96) is above .8 - .04 = .76; rest: sit and stroll (.8 and .6), of which .8 is above .76.
    assert mined.columns == ("anchor", "positive", "negative")
    assert mined.rows == (("walk", "stroll", "run"), ("rest", "nap", "stroll"))
    report = mined.report
    assert (report.pairs, report.anchors, report.rows, report.negatives) == (2, 2, 2, 2)
    assert (report.anchors_with_all, report.anchors_with_some, report.anchors_with_none) == (2, 0, 0)
    assert report.positive_score == pytest.approx(0.8)
    assert report.negative_score == pytest.approx(0.6)
    # walk without stroll: march, run; rest without nap: sit, stroll.
    assert report.negative_rank == pytest.approx(2.0)
    assert report.candidates == 10
    assert {name: count for name, count in report.taken.items() if count} == {
        "known": 2,
        "relative-margin": 2,
    }


def test_margins_hold_by_the_lowest_of_several_positives(mine: Callable[..., MinedNegatives]) -> None:
    pairs = [("walk", "march"), ("walk", "run")]
    assert mine(pairs, relative_margin=0.05).rows == (("walk", "march", "sit"), ("walk", "run", "sit"))
    assert mine(pairs, relative_margin=0.05, min_score=0.1).rows == ()  # stroll (.8) is above .57
    assert mine(pairs[:1], relative_margin=0.05).rows == (("walk", "march", "stroll"),)


def test_rows_have_as_many_negatives_as_were_asked_for_nearest_first(
    mine: Callable[..., MinedNegatives],
) -> None:
    mined = mine(PAIRS[:1], per_anchor=3)
    assert mined.columns == ("anchor", "positive", "negative_1", "negative_2", "negative_3")
    assert mined.rows == (("walk", "stroll", "run", "sit", "nap"),)


def test_triplets_have_a_row_for_each_negative(mine: Callable[..., MinedNegatives]) -> None:
    mined = mine(PAIRS[:1], per_anchor=2, triplets=True)
    assert mined.rows == (("walk", "stroll", "run"), ("walk", "stroll", "sit"))


def test_incomplete_anchors_are_left_out_unless_each_negative_has_a_row(
    mine: Callable[..., MinedNegatives],
) -> None:
    # Of at least .5 there are run (.6) for walk, and stroll (.6) for rest, whose march is .28.
    dropped = mine(per_anchor=3, min_score=0.5)
    assert dropped.rows == ()
    assert (dropped.report.anchors_with_some, dropped.report.negatives) == (2, 0)
    assert dropped.report.negative_score is None
    triplets = mine(per_anchor=3, min_score=0.5, triplets=True)
    assert triplets.rows == (("walk", "stroll", "run"), ("rest", "nap", "stroll"))
    assert triplets.report.negatives == 2


def test_an_anchor_without_negatives_is_never_in_the_rows(mine: Callable[..., MinedNegatives]) -> None:
    mined = mine(max_score=-0.5, triplets=True)
    assert mined.rows == (("walk", "stroll", "fall"),)
    assert mined.report.anchors_with_none == 1


def test_other_positives_and_texts_that_differ_in_spelling_alone_are_never_taken(table_encoder: type) -> None:
    table = {"walk": (1.0, 0.0), "WALK!": (1.0, 0.0), "Stroll.": (0.8, 0.6), "stroll": (0.8, 0.6)}
    table |= {"amble": (0.7, 0.7), "run": (0.6, 0.8)}
    mined = mine_negatives(
        [("walk", "stroll"), ("amble", "walk")],
        MiningCorpus.of("moves", ["WALK!", "Stroll.", "amble", "run"]),
        table_encoder(table),
        MiningConfig(per_anchor=1, relative_margin=None),
    )
    assert mined.rows == (("walk", "stroll", "run"), ("amble", "walk", "run"))


def test_a_judge_drops_what_it_scores_above_the_positive(mine: Callable[..., MinedNegatives]) -> None:
    judge = ListJudge("run")
    mined = mine(PAIRS[:1], judge=judge)
    assert mined.rows == (("walk", "stroll", "sit"),)
    assert (mined.report.taken["judge"], mined.report.judged) == (1, 2)
    assert mined.report.judge == "listing"
    # The positive first; then one candidate after the other, and none beyond the one that is taken.
    assert judge.asked == [("walk", "stroll"), ("walk", "run"), ("walk", "sit")]


def test_a_judge_lets_pass_what_it_scores_like_the_positive(mine: Callable[..., MinedNegatives]) -> None:
    assert mine(PAIRS[:1], judge=ListJudge("run", "stroll")).rows == (("walk", "stroll", "run"),)


def test_a_judge_holds_candidates_to_the_positive_that_it_scores_lowest(
    mine: Callable[..., MinedNegatives],
) -> None:
    pairs = [("walk", "stroll"), ("walk", "march")]
    # One of the positives is scored 1 and the other 0, so run's 1 is too much.
    assert [row[2] for row in mine(pairs, judge=ListJudge("stroll", "run")).rows] == ["sit", "sit"]
    both = ListJudge("stroll", "march", "run")
    assert [row[2] for row in mine(pairs, judge=both).rows] == ["run", "run"]


def test_anchors_draw_independently(mine: Callable[..., MinedNegatives]) -> None:
    pairs = [("walk", "stroll"), ("march", "stroll")]
    options = {"sampling": NegativeSampling.RANDOM, "relative_margin": None}
    drawn = [mine(pairs, ["run", "sit", "nap"], seed=seed, **options).rows for seed in range(20)]
    assert any(first[2] != second[2] for first, second in drawn)


@pytest.mark.parametrize("sampling", NegativeSampling)
def test_a_judge_that_drops_none_changes_nothing(
    sampling: NegativeSampling, mine: Callable[..., MinedNegatives]
) -> None:
    options = {"sampling": sampling, "per_anchor": 2}
    assert mine(judge=ListJudge(), **options).rows == mine(**options).rows


def test_random_negatives_are_the_same_for_a_seed_and_reach_every_candidate(
    mine: Callable[..., MinedNegatives],
) -> None:
    def drawn(seed: int) -> MinedNegatives:
        return mine(PAIRS[:1], sampling=NegativeSampling.RANDOM, seed=seed)

    assert drawn(3).rows == drawn(3).rows
    assert {drawn(seed).rows[0][2] for seed in range(40)} == {"run", "sit", "fall", "nap"}


def test_random_negatives_stand_in_the_order_of_their_scores(mine: Callable[..., MinedNegatives]) -> None:
    order = ["run", "sit", "nap", "fall"]
    for seed in range(10):
        (row,) = mine(PAIRS[:1], sampling=NegativeSampling.RANDOM, seed=seed, per_anchor=3).rows
        assert list(row[2:]) == sorted(row[2:], key=order.index)


def test_blocks_change_nothing(mine: Callable[..., MinedNegatives], monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"sampling": NegativeSampling.RANDOM, "judge": ListJudge("stroll"), "relative_margin": None}
    pairs = [*PAIRS, ("run", "march"), ("sit", "nap")]
    whole = mine(pairs, **options)
    monkeypatch.setattr("nearsay.training.sentence.negatives.mining._BLOCK_ANCHORS", 1)
    assert mine(pairs, **options).rows == whole.rows
    assert mine(pairs, **options).report.taken == whole.report.taken


def test_an_anchor_with_many_known_texts_is_searched_deeper(table_encoder: type) -> None:
    known = {f"known {number}": (1.0, number / 1000) for number in range(30)}
    others = {f"other {number}": (0.5, 1.0 + number / 1000) for number in range(5)}
    encoder = table_encoder({"hub": (1.0, 0.0), **known, **others})
    mined = mine_negatives(
        [("hub", text) for text in known],
        MiningCorpus.of("all", [*known, *others]),
        encoder,
        MiningConfig(per_anchor=2, last_rank=3),
    )
    assert {row[2:] for row in mined.rows} == {("other 0", "other 1")}
    assert len(mined.rows) == 30
    assert mined.report.taken["known"] == 30


def test_vectors_that_the_corpus_brings_along_are_used_and_not_made_again(words: Any) -> None:
    texts = ["a cat", "my dog ran", "so it is"]
    corpus = MiningCorpus.of("stored", texts, words.encode(texts))
    words.encoded.clear()
    stored = mine_negatives([("the cat", "a cat")], corpus, words, MiningConfig(per_anchor=1))
    assert words.encoded == []
    plain = MiningCorpus.of("stored", texts)
    made = mine_negatives([("the cat", "a cat")], plain, words, MiningConfig(per_anchor=1))
    assert stored.rows == made.rows
    assert words.encoded == texts


def test_vectors_of_another_dimension_are_refused(words: Any) -> None:
    corpus = MiningCorpus.of("stored", ["a cat"], np.ones((1, 3), dtype=np.float32))
    with pytest.raises(BadInputError, match=r"stored have 3 .*words 8"):
        mine_negatives([("the cat", "a cat")], corpus, words)


def test_progress_tells_texts_and_then_anchors(words: Any) -> None:
    told: list[tuple[MiningStage, int, int]] = []
    mine_negatives(
        [("the cat", "a cat"), ("so be it", "it is so")],
        MiningCorpus.of("few", ["a cat", "ran off", "hm"]),
        words,
        progress=lambda *look: told.append(look),
    )
    assert told == [
        (MiningStage.ENCODING, 2, 6),
        (MiningStage.ENCODING, 6, 6),
        (MiningStage.MINING, 2, 2),
    ]


def test_cut_texts_are_counted(words: Any) -> None:
    words.max_tokens = 2
    corpus = MiningCorpus.of("few", ["a cat", "off we ran"])
    assert mine_negatives([("see the cat", "a cat")], corpus, words).report.truncated == 2


# sentence-transformers' own mining, which reads and gives a `datasets.Dataset`.


class Table:
    """As much of a `datasets.Dataset` as the oracle uses, and of the pandas table that it asks for."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns = columns
        self.column_names = list(columns)

    @classmethod
    def from_dict(cls, columns: dict[str, list[Any]]) -> "Table":
        return cls(columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]

    def to_pandas(self) -> "Table":
        return self

    def groupby(self, name: str) -> "Table":
        counts: dict[str, int] = {}
        for value in self.columns[name]:
            counts[value] = counts.get(value, 0) + 1
        return Table({other: list(counts.items()) for other in self.columns})

    def count(self) -> "Table":
        return self

    def to_dict(self) -> dict[str, dict[str, int]]:
        return {name: dict(items) for name, items in self.columns.items()}


@pytest.fixture
def oracle(tiny_folder: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., set[tuple[str, ...]]]:
    """Mines with sentence-transformers, with the same encoder as `tiny`."""
    model: SentenceTransformer = load_model(EncoderFolder(tiny_folder), "cpu")
    module = ModuleType("datasets")
    module.Dataset = Table  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    monkeypatch.setattr(hard_negatives, "is_datasets_available", lambda: True)

    def mine(
        pairs: Sequence[tuple[str, str]], corpus: Sequence[str], **settings: Any
    ) -> set[tuple[str, ...]]:
        table = Table({"anchor": [pair[0] for pair in pairs], "positive": [pair[1] for pair in pairs]})
        found = hard_negatives.mine_hard_negatives(
            table, model, corpus=list(corpus), output_format="n-tuple", verbose=False, **settings
        )
        return set(zip(*found.columns.values(), strict=True))

    return mine


LETTERS = list("abcdefghijklmnopqrstuvwxyz")


def spelled(count: int, seed: int) -> list[str]:
    """Texts of six to nine letters, which the tiny encoder's random weights place by what they share."""
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(LETTERS, size=generator.integers(6, 10))) for _ in range(count)]


def varied(text: str, seed: int) -> str:
    """The text with one letter exchanged."""
    generator = np.random.default_rng(seed)
    letters = text.split()
    letters[generator.integers(len(letters))] = str(generator.choice(LETTERS))
    return " ".join(letters)


@pytest.mark.parametrize(
    ("settings", "config"),
    [
        ({"num_negatives": 3, "relative_margin": 0.1}, MiningConfig(per_anchor=3, relative_margin=0.1)),
        (
            {"num_negatives": 2, "absolute_margin": 0.08},
            MiningConfig(per_anchor=2, relative_margin=None, absolute_margin=0.08),
        ),
        (
            {"num_negatives": 2, "range_min": 5},
            MiningConfig(per_anchor=2, relative_margin=None, first_rank=6),
        ),
        (
            {"num_negatives": 4, "max_score": 0.9, "min_score": 0.85},
            MiningConfig(per_anchor=4, relative_margin=None, max_score=0.9, min_score=0.85),
        ),
    ],
)
def test_the_negatives_are_those_of_sentence_transformers(
    settings: dict[str, Any],
    config: MiningConfig,
    oracle: Callable[..., set[tuple[str, ...]]],
    tiny: Encoder,
) -> None:
    anchors, corpus = spelled(30, 0), spelled(120, 1)
    pairs = [(text, varied(text, number)) for number, text in enumerate(anchors)]
    pairs += [(text, varied(text, 100 + number)) for number, text in enumerate(anchors[:10])]
    whole = list(dict.fromkeys([*corpus, *(positive for _, positive in pairs)]))
    mined = mine_negatives(pairs, MiningCorpus.of("letters", whole), tiny, replace(config, last_rank=200))
    expected = oracle(pairs, corpus, range_max=200, **settings)
    assert 20 < len(expected) <= len(pairs)
    assert set(mined.rows) == expected
    plain = mine_negatives(
        pairs,
        MiningCorpus.of("letters", whole),
        tiny,
        MiningConfig(per_anchor=config.per_anchor, relative_margin=None),
    )
    assert set(plain.rows) != expected  # the settings decide something
