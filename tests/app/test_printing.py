"""What a person reads of a search."""

import io

import click
import pytest
from rich.cells import cell_len

from nearsay.app.cli.printing import print_hits, print_passages, print_table
from nearsay.data.document import visible
from nearsay.indexer.neighbours.points import ShownPassage
from nearsay.indexer.query.hit import Explanation, Hit, Hits, HitScores, Lineage

LINEAGE = Lineage(encoder="words", fingerprint="f", generation=1, plan="exact", made_by=())


def line(
    capsys: pytest.CaptureFixture[str], score: float, scores: HitScores, *, by_ranks: bool = False
) -> str:
    """The first line that is printed of a hit, after its rank."""
    hit = Hit(1, score, "d1", "Title", "text", {}, None, 0, 0, 4, LINEAGE, scores)
    print_hits(Hits((hit,), asked=1, qualifying=1), as_json=False, by_ranks=by_ranks)
    return capsys.readouterr().out.splitlines()[0].removeprefix("  1. ")


def test_a_plain_cosine_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert line(capsys, 0.5, HitScores(dense=0.5)) == "0.500  Title"
    assert line(capsys, 0.5, HitScores(dense=0.5, lexical=1.2, fused=0.5)) == "0.500  Title"


def test_a_fused_score_is_shown_as_the_sum_that_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    scores = HitScores(dense=0.75, lexical=9.0, fused=1.0625)
    assert line(capsys, 1.0625, scores) == "1.062  Title  (cosine 0.750 + words 0.312)"
    without_vector = HitScores(lexical=9.0, fused=0.25)
    assert line(capsys, 0.25, without_vector) == "0.250  Title  (words 0.250)"


def test_an_explained_hit_says_how_much_of_a_match_by_words_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    why = Explanation(
        (), (), 0.0, (), 0.0, 0.5, 0.0, exact=True, seen=4, matched=(), matches=(), sentence=None
    )
    for fused, share, said in ((0.6, 0.7, "words 0.100, 70%"), (0.5, 0.3, "words nothing, 30%")):
        scores = HitScores(dense=0.5, lexical=2.0, word_share=share, fused=fused)
        hit = Hit(1, fused, "d1", "Title", "text", {}, None, 0, 0, 4, LINEAGE, scores, explanation=why)
        print_hits(Hits((hit,), asked=1, qualifying=1), as_json=False)
        assert f"(cosine 0.500 + {said} of a full match by words)" in capsys.readouterr().out


def test_a_score_that_is_no_cosine_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert line(capsys, 9.0, HitScores(lexical=9.0)) == "9.000  Title  (BM25)"
    both = HitScores(dense=0.5, lexical=9.0, fused=0.03)
    assert line(capsys, 0.03, both, by_ranks=True) == "0.030  Title  (by ranks; cosine 0.500, BM25 9.00)"
    judged = HitScores(dense=0.5, fused=0.5, rerank=-3.0)
    assert line(capsys, -3.0, judged) == "-3.000  Title  (reranked; cosine 0.500)"


def test_where_was_searched_is_said_beside_the_hits_when_it_was_no_cpu(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for device, said in (("cpu", ""), ("cuda:1", "searched on cuda:1\n")):
        lineage = Lineage("words", "f", 1, "exact", (), device)
        hit = Hit(1, 0.5, "d1", "Title", "text", {}, None, 0, 0, 4, lineage, HitScores(dense=0.5))
        print_hits(Hits((hit,), asked=1, qualifying=1), as_json=False)
        assert capsys.readouterr().err == said


def test_metadata_stands_as_a_filter_writes_it(capsys: pytest.CaptureFixture[str]) -> None:
    metadata = {"day": 20190308, "tags": ["a", "b"], "kept": True, "by": None, "kind": "note"}
    metadata |= {"who": {"name": "Ada"}}
    said = '     d1  day=20190308  tags=["a", "b"]  kept=true  by=null  kind=note  who.name=Ada'
    hit = Hit(1, 0.5, "d1", "Title", "text", metadata, None, 0, 0, 4, LINEAGE, HitScores(dense=0.5))
    print_hits(Hits((hit,), asked=1, qualifying=1), as_json=False)
    assert capsys.readouterr().out.splitlines()[-1] == said
    passage = ShownPassage(1, 0.5, "d1", "Title", "text", metadata, 0)
    print_passages([passage], lambda _: ("", ""), as_json=False)
    assert capsys.readouterr().out.splitlines()[-1] == said


class Terminal(io.StringIO):
    """Standard output of a terminal."""

    def isatty(self) -> bool:
        return True


ROWS = [["日本語", 3, "短い"], ["cats", 12_000, "[bold]a cat[/] sat on the mat :smile: all day"]]


def test_wide_characters_count_as_two_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["about", "passages", "for example"], ROWS)
    assert capsys.readouterr().out.splitlines() == [
        "about   passages  for example",
        "日本語         3  短い",
        "cats      12,000  [bold]a cat[/] sat on the mat :smile: all day",
    ]


def test_passages_of_wide_characters_stay_within_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"{'秋の夜は長い。' * 40} a well-known haiku"
    hit = Hit(1, 0.5, "d1", "Title", text, {}, None, 0, 0, 4, LINEAGE, HitScores(dense=0.5))
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    print_hits(Hits((hit,), asked=1, qualifying=1), as_json=False)
    lines = [click.unstyle(line) for line in terminal.getvalue().splitlines()[1:-1]]
    assert max(map(cell_len, lines)) == 40
    assert all(line.startswith("     ") for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_table_is_wrapped_at_the_width_of_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = [["漢" * 400, 1, "x"]]
    print_table(["about", "passages", "for example"], wide)
    assert len(capsys.readouterr().out.splitlines()) == 2
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    print_table(["about", "passages", "for example"], [*wide, *ROWS])
    lines = [click.unstyle(line) for line in terminal.getvalue().splitlines()]
    assert max(map(cell_len, lines)) == 40
    assert "".join(lines).count("漢") == 400


def test_a_table_of_too_many_columns_for_a_terminal_is_a_line_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    headers = ["generation", "state", "encoder", "dimensions", "made"]
    print_table(headers, [[1, "live", "all-MiniLM-L6-v2", 384, ""], [2, "ready", "a" * 60, 12_000, "now"]])
    first, second = click.unstyle(terminal.getvalue()).rstrip("\n").split("\n\n")
    assert [line.split() for line in first.splitlines()] == [
        ["generation", "1"],
        ["state", "live"],
        ["encoder", "all-MiniLM-L6-v2"],
        ["dimensions", "384"],
    ]
    assert second.count("a" * 28) == 2
    assert second.endswith("now")


def test_a_table_without_rows_is_its_headers(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["about", "passages"], [])
    assert capsys.readouterr().out == "about  passages\n"


def test_joiners_inside_words_stay_and_what_steers_a_terminal_does_not() -> None:
    whole = "می\u200cخواهم क्\u200dष 👩\u200d🚀 Donau\u00addampf"
    assert visible(whole) == whole
    assert visible("a\x1bb\x9bc\u202ed\u2066e") == "a b c d e"
