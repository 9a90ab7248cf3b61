import pytest
from scipy.stats import pearsonr, spearmanr

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
from nearsay.training.evaluation.judged.pairs import StsSet
from nearsay.training.sentence.text_encoder import TextKind

TABLE = {"east": (2, 0), "north": (0, 5), "north-east": (1, 1), "west": (-3, 0)}
PAIRS = [
    ScoredPair("east", "west", 0.0),  # cosine -1
    ScoredPair("east", "north", 2.0),  # 0
    ScoredPair("north-east", "north", 1.0),  # 0.7071
    ScoredPair("east", "east", 5.0),  # 1
]


def test_it_correlates_cosines_with_scores(table_encoder: type) -> None:
    encoder = table_encoder(TABLE, truncated=["east"])
    report = StsSet("ways", tuple(PAIRS)).measure(encoder)
    cosines, scores = [-1, 0, 0.5**0.5, 1], [0, 2, 1, 5]
    assert report.items == 4
    assert report.metrics["spearman"] == pytest.approx(
        80
    )  # one swap of neighbours in four: 1 - 6 * 2 / (4 * 15)
    assert report.metrics["spearman"] == pytest.approx(100 * spearmanr(cosines, scores).statistic)
    assert report.metrics["pearson"] == pytest.approx(100 * pearsonr(cosines, scores).statistic, abs=1e-4)
    assert report.truncated == 4
    assert report.seconds > 0
    assert encoder.kinds == [TextKind.PASSAGE]


def test_an_encoder_that_is_wrong_throughout_reaches_minus_one_hundred(table_encoder: type) -> None:
    turned = [
        ScoredPair(pair.sentence1, pair.sentence2, -score)
        for pair, score in zip(PAIRS, range(4), strict=True)
    ]
    outcome = StsSet("ways", tuple(turned)).measure(table_encoder(TABLE))
    assert outcome.figure == pytest.approx(-100)


@pytest.mark.parametrize("pairs", [[], PAIRS[:1]])
def test_too_few_pairs_are_refused(pairs: list[ScoredPair], table_encoder: type) -> None:
    with pytest.raises(BadInputError, match="two lists"):
        StsSet("ways", tuple(pairs)).measure(table_encoder(TABLE))
