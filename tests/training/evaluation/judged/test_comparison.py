from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.figure_names import figure_name
from nearsay.training.evaluation.judged.comparison import (
    Comparison,
    ComparisonOptions,
    compare_encoders,
)
from nearsay.training.evaluation.judged.comparison_plot import comparison_figure
from nearsay.training.evaluation.judged.comparison_table import (
    comparison_legend,
    comparison_markdown,
    cost_rows,
    set_rows,
)
from nearsay.training.evaluation.judged.suite import find_suite

QUICK = ComparisonOptions(speed_rounds=0, draws=200)
Compare = Callable[..., Comparison]


class BrokenEncoder(WordsEncoder):
    """Cannot encode questions."""

    def _window(self, texts, kind):
        if any("?" in text for text in texts):
            raise RuntimeError("out of | memory")
        return super()._window(texts, kind)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Scored pairs where the words' lengths are all that counts, and triplets of questions."""
    scored = [(row % 4, "a " * (row % 4) + "wood", "a a a wood") for row in range(24)]
    (tmp_path / "scored.tsv").write_text(
        "score\tsentence1\tsentence2\n" + "".join(f"{score}\t{a}\t{b}\n" for score, a, b in scored)
    )
    (tmp_path / "asked").mkdir()
    (tmp_path / "asked" / "test.tsv").write_text(
        "anchor\tpositive\tnegative\n" + "a cat?\ta dog?\telephants?\n" * 6
    )
    return tmp_path


@pytest.fixture
def compared(suite: Path) -> Comparison:
    # With one dimension every text has the same vector: the second encoder knows nothing of length.
    encoders = [WordsEncoder(), WordsEncoder(name="blurred", dimension=3), BrokenEncoder(name="broken")]
    return compare_encoders(encoders, find_suite(suite).sets, options=QUICK)


def test_every_encoder_is_measured_on_every_set_and_an_error_stays_in_its_cell(compared: Comparison) -> None:
    asked, scored = compared.cells[:3], compared.cells[3:]
    assert {(cell.set, cell.items) for cell in asked} == {("asked", 6)}
    assert {(cell.set, cell.items) for cell in scored} == {("scored", 24)}
    assert [cell.figure for cell in asked] == [1.0, 1.0, None]
    assert [cell.best for cell in asked] == [True, True, False]
    assert [cell.error for cell in asked] == [None, None, "out of | memory"]
    assert [cell.error for cell in scored] == [None] * 3
    assert compared.failed == 1
    assert scored[0].figure == pytest.approx(100)
    assert scored[0].difference_to_first is None
    assert scored[2].difference_to_first is not None
    low, high = scored[2].difference_to_first
    assert low <= 0 <= high


def test_a_worse_encoder_is_marked_and_the_highest_figures_too(suite: Path) -> None:
    class Backwards(WordsEncoder):
        """Turns each vector by what it has of short words, so that likeness falls where it should rise."""

        def _window(self, texts, kind):
            found = super()._window(texts, kind)
            turned = np.array([[1.0, 0.0] if text == "a a a wood" else [0.0, 1.0] for text in texts])
            few = np.array([1.0 / (1 + text.count("a ")) for text in texts])[:, None]
            found.vectors[:, :2] = turned + few * np.array([[1.0, 0.0]])
            return found

    found = compare_encoders(
        [WordsEncoder(), Backwards(name="backwards")], find_suite(suite, only=["scored"]).sets, options=QUICK
    )
    (row,) = set_rows(found.cells)
    assert [*row.values()][:3] == ["scored", "sts: Spearman", "24"]
    assert row["words"].startswith("100.00* (")
    assert "- (" in row["backwards"]
    assert found.cells[1].difference_to_first is not None
    assert found.cells[1].difference_to_first[1] < 0


def test_a_set_that_cannot_be_read_is_an_error_of_its_row_alone(suite: Path) -> None:
    sets = find_suite(suite).sets
    (suite / "asked" / "test.tsv").write_text("anchor\tpositive\n")
    found = compare_encoders([WordsEncoder()], sets, options=QUICK)
    assert found.failed == 1
    damaged, whole = found.cells
    assert damaged.items is None
    assert "has no" in (damaged.error or "") or "holds no" in (damaged.error or "")
    assert whole.figure == pytest.approx(100)


def test_sets_of_one_name_have_a_line_each(suite: Path) -> None:
    (suite / "scored").mkdir()
    (suite / "scored" / "test.tsv").write_bytes((suite / "scored.tsv").read_bytes())
    (suite / "scored.tsv").write_text("score\tsentence1\tsentence2\n1\ta\tb\n")
    found = compare_encoders([WordsEncoder()], find_suite(suite, only=["scored*"]).sets, options=QUICK)
    assert [row["set"] for row in set_rows(found.cells)] == ["scored.tsv", "scored/test.tsv"]


def test_size_and_speed_stand_below_the_figures(suite: Path) -> None:
    found = compare_encoders(
        [WordsEncoder(), WordsEncoder(name="other", dimension=4)],
        find_suite(suite, only=["scored"]).sets,
        sizes=[(22_700_000, 90.87), (1_000_000, 4.0)],
        options=ComparisonOptions(draws=50),
    )
    rows = cost_rows(found.encoders)
    assert [*rows[0]] == ["", "words", "other"]
    assert [row[""] for row in rows] == ["parameters", "weights", "dimension", "sentences a second"]
    assert [*rows[0].values()][1:] == ["22.7 M", "1.0 M"]
    assert [*rows[1].values()][1:] == ["90.9 MB", "4.0 MB"]
    assert [*rows[2].values()][1:] == ["8", "4"]
    headers = comparison_markdown(found).splitlines()
    assert (headers[0], headers[3]) == (
        "| set | figure | items | words | other |",
        "| parameters |  |  | 22.7 M | 1.0 M |",
    )
    cost = found.encoders[0]
    assert cost.sentences_a_second is not None
    assert cost.sentences_a_second_range is not None
    lowest, highest = cost.sentences_a_second_range
    assert 0 < lowest <= cost.sentences_a_second <= highest


def test_markdown_has_the_same_cells_escaped_and_the_legend(compared: Comparison) -> None:
    lines = comparison_markdown(compared).splitlines()
    assert lines[0] == "| set | figure | items | words | blurred | broken |"
    assert lines[1] == "| --- | --- | --- | --- | --- | --- |"
    assert lines[2].endswith("| error: out of \\| memory |")
    assert lines[-1] == comparison_legend(compared.cells)
    assert lines[-1] == Naming("better and worse", "95 %")


def test_there_is_a_report_an_encoder_and_one_a_cell(compared: Comparison) -> None:
    encoders, cells = compared.encoders, compared.cells
    assert (len(encoders), len(cells)) == (3, 6)
    assert encoders[0].parameters is None
    cell = cells[3]
    assert (cell.set, cell.encoder, cell.main, cell.items) == ("scored", "words", "spearman", 24)
    assert cell.best
    assert cell.difference_to_first is None
    assert (cells[2].error, cells[2].figure) == ("out of | memory", None)
    for report in (*encoders, *cells):
        assert type(report).from_json(report.to_json()) == report


def test_the_picture_has_a_line_a_set_and_a_mark_an_encoder(compared: Comparison) -> None:
    figure = comparison_figure(compared)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["asked\naccuracy", "scored\nSpearman"]
    marks = {bars.get_label(): list(bars.lines[0].get_xdata()) for bars in axes.containers}
    assert list(marks) == [
        "words: 8 dimensions",
        "blurred: 3 dimensions",
        "broken: 8 dimensions",
    ]
    assert marks["words: 8 dimensions"] == pytest.approx([100, 100])
    assert marks["broken: 8 dimensions"] == pytest.approx([100])


def test_nothing_measured_is_nothing_to_draw(suite: Path) -> None:
    found = compare_encoders([BrokenEncoder()], find_suite(suite, only=["asked"]).sets, options=QUICK)
    with pytest.raises(BadInputError, match="nothing to draw"):
        comparison_figure(found)


def test_encoders_of_one_name_are_told_apart_by_where_they_are(suite: Path) -> None:
    class Elsewhere(WordsEncoder):
        source = "/elsewhere/words"

    found = compare_encoders([WordsEncoder(), Elsewhere()], find_suite(suite).sets, options=QUICK)
    assert [encoder.encoder for encoder in found.encoders] == ["words", "/elsewhere/words"]
    with pytest.raises(BadInputError, match="named twice: words, words"):
        compare_encoders([WordsEncoder(), WordsEncoder()], find_suite(suite).sets, options=QUICK)


def test_progress_names_encoder_and_set(suite: Path) -> None:
    seen: list[tuple[str, str, int, int]] = []
    compare_encoders(
        [WordsEncoder()], find_suite(suite).sets, options=QUICK, watch=lambda *look: seen.append(look)
    )
    anchors, rest = ("words", "asked", 6, 18), ("words", "asked", 18, 18)
    assert seen == [anchors, rest, ("words", "scored", 48, 48)]


def test_a_limit_is_the_same_sample_for_every_encoder(suite: Path) -> None:
    options = ComparisonOptions(limit=10, speed_rounds=0, draws=50)
    first, second = WordsEncoder(), WordsEncoder(name="other")
    found = compare_encoders([first, second], find_suite(suite, only=["scored"]).sets, options=options)
    assert found.cells[0].items == 10
    assert first.encoded == second.encoded
    assert "10 of 24 items" in found.notes[-1]


@pytest.mark.parametrize("wrong", [{"limit": 1}, {"speed_rounds": 2}, {"speed_rounds": -1}])
def test_settings_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadInputError, match="give"):
        ComparisonOptions(**wrong)


def test_without_encoders_or_sets_there_is_nothing_to_compare(suite: Path) -> None:
    with pytest.raises(BadInputError, match=r"\b0 encoders and 2 judged"):
        compare_encoders([], find_suite(suite).sets)


def test_figures_have_the_fields_names() -> None:
    assert figure_name("spearman_dot") == "Spearman dot"
    assert figure_name("best_f1_threshold_euclidean") == "best F1 at euclidean"
    assert figure_name("v_measure") == "V-measure"
    assert figure_name("homogeneity") == "homogeneity"
