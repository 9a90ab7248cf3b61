"""A result as HTML, its score in words, and results as files."""

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.app.jobs.command_line import checked
from nearsay.app.ui import full_document
from nearsay.app.ui.asked import Asked
from nearsay.app.ui.card import card_html, cut_at, in_words, metadata_line, passage_html, score_line
from nearsay.app.ui.filters import day_of, label_of
from nearsay.app.ui.full_document import document_html, page_at, page_count, page_edges
from nearsay.app.ui.search.page import csv_of, example_queries, json_lines_of, search_arguments, telling
from nearsay.indexer.catalogue.judgements import SearchMode
from nearsay.indexer.query.explain import matched_terms
from nearsay.indexer.query.hit import BestSentence, Explanation, Hit, HitScores

MakeHit = Callable[..., Hit]
_EVIL = "<img src=x onerror=alert(1)>"


@pytest.mark.parametrize(
    ("cosine", "word"),
    [
        (1.0, "very close"),
        (0.75, "very close"),
        (0.7499, "close"),
        (0.55, "close"),
        (0.35, "related"),
        (0.34, "distant"),
        (-1.0, "distant"),
    ],
)
def test_a_cosine_has_a_word(cosine: float, word: str) -> None:
    assert in_words(cosine) == word


@pytest.mark.parametrize(
    ("mode", "score", "scores", "line"),
    [
        (SearchMode.DENSE, 0.62, HitScores(dense=0.62), "close · cosine 0.62"),
        (None, 0.62, HitScores(dense=0.62), "close · cosine 0.62"),
        (SearchMode.HYBRID, 0.62, HitScores(0.62, None, 0.62), "close · cosine 0.62"),
        (
            SearchMode.HYBRID,
            0.79,
            HitScores(0.62, 4.0, 0.79),
            "close · cosine 0.62 + 0.17 for its words",
        ),
        (
            SearchMode.HYBRID,
            0.45,
            HitScores(0.3, 4.0, 0.45),
            "by its words “bank”, “fails” · cosine 0.30 + 0.15 for them",
        ),
        (SearchMode.DENSE, 0.3, HitScores(0.3), "distant · cosine 0.30"),
        (SearchMode.LEXICAL, 12.34, HitScores(lexical=12.34), "by words · BM25 12.3"),
        (
            SearchMode.HYBRID,
            0.3,
            HitScores(lexical=4.0, fused=0.3),
            "by its words “bank”, “fails” · ranked by 0.30",
        ),
    ],
)
def test_a_score_is_said_as_what_it_is(
    a_hit: MakeHit, mode: SearchMode | None, score: float, scores: HitScores, line: str
) -> None:
    assert score_line(a_hit(score=score, scores=scores), mode, ("bank", "fails")) == line


def test_nothing_of_a_document_is_markup(a_hit: MakeHit) -> None:
    hit = a_hit(title=_EVIL, text=_EVIL * 60, metadata={_EVIL: _EVIL, "b": [_EVIL], "c": {_EVIL: 1}})
    made = card_html(hit, SearchMode.DENSE)
    assert "<img" not in made
    assert set(re.findall(r"</?(\w+)", made)) <= {"article", "div", "span", "details", "summary", "mark", "u"}


def test_a_document_without_a_title_is_named_by_its_id(a_hit: MakeHit) -> None:
    assert ">P19-1001</span>" in card_html(a_hit(title=" ", id_="P19-1001"), SearchMode.DENSE)


def test_a_line_without_a_title_is_shown_once_with_its_words_marked(a_hit: MakeHit) -> None:
    line = "My back hurts after digging."
    hit = a_hit(id_=f"notes.txt#{'0' * 16}", title="", text=line)
    found = card_html(hit, SearchMode.DENSE, matches=matched_terms("back", [("", line)])[0])
    assert "<u>back</u>" in found
    assert re.sub("<[^>]*>", "", found).count(line) == 1
    assert passage_html(title=line, text=line).count(line) == 1


def test_a_text_without_a_title_goes_on_below_its_own_heading(a_hit: MakeHit) -> None:
    text = (
        "Oil prices surged to a\nnew high on Wednesday after a new threat by rebels, said " + "a trader. " * 9
    )
    id_ = f"news.tsv#{'0' * 16}-2"  # the second copy of a line
    shaded = card_html(a_hit(id_=id_, title="", text=text), SearchMode.DENSE)
    plain = passage_html(title="", id_=id_, text=text)
    for found in (shaded, plain):
        said = re.sub("<[^>]*>", "", found)
        assert said.count("Oil prices") == 1
        assert said.count("a trader.") == 9
        assert "news.tsv" not in said


def test_a_long_passage_is_folded_after_a_sentence() -> None:
    text = "One sentence stands here. " * 50
    at = cut_at(text)
    assert text[:at].endswith("here. ")
    assert 310 <= at <= 620
    assert cut_at("x" * 800) == 800
    assert cut_at("x" * 801) == 620
    words = "word " * 161
    assert words[cut_at(words) - 1] == " "


def test_the_best_sentence_of_a_folded_passage_stays_in_sight(a_hit: MakeHit) -> None:
    text = "Nothing is said here. " * 60 + "The answer stands at the end."
    start = text.index("The answer")
    best = BestSentence(text[start:], start, len(text), 0.9)
    explanation = Explanation((), (), 0, (), 0, 0.5, 0, True, len(text), (), (), best)
    made = card_html(a_hit(text=text), SearchMode.DENSE, explanation)
    open_part = made.split("<details")[0]
    assert '<span class="ns-best">The answer stands at the end.</span>' in open_part
    assert "Show all" in made
    whole = re.sub(r"<[^>]*>", "", made)
    assert whole.count("Nothing is said here.") == 60


def test_metadata_stands_on_one_line() -> None:
    row = {"year": 2020, "tags": ["a", "b"], "open": True, "none": None, "empty": "", "who": {"name": "Ada"}}
    assert metadata_line(row) == "year 2020 · tags a, b · open true · who.name Ada"
    assert metadata_line({"a": 1, "b": 2, "c": 3}, 2) == "a 1 · b 2 · and 1 more"
    assert metadata_line({"a": "x" * 100}) == f"a {'x' * 79}…"


def test_what_two_documents_differ_in_comes_first() -> None:
    same = {f"f{number}": number for number in range(9)}
    one, other = same | {"edition": {"number": 1}, "only": True}, same | {"edition": {"number": 2}}
    assert metadata_line(one, 3, beside=other) == "edition.number 1 · only true · f0 0 · and 8 more"
    assert metadata_line(other, 2, beside=one) == "edition.number 2 · f0 0 · and 8 more"
    assert metadata_line(same, 1, beside=dict(same)) == "f0 0 · and 8 more"


def test_a_table_has_a_column_a_field_and_no_formulas(a_hit: MakeHit) -> None:
    hits = [
        a_hit(title="=1+1", text="-2\nlines, and more", metadata={"year": 2020, "=evil": ["@a"]}),
        a_hit(rank=2, score=-0.5, metadata={"later": "+x"}),
    ]
    rows = list(csv.DictReader(io.StringIO(csv_of(hits).decode("utf-8-sig"))))
    assert rows[0]["title"] == "'=1+1"
    assert rows[0]["text"] == "'-2\nlines, and more"
    assert rows[0]["metadata.year"] == "2020"
    assert rows[0]["metadata.=evil"] == '["@a"]'
    assert rows[1]["metadata.later"] == "'+x"
    assert rows[1]["score"] == "-0.5"
    assert rows[1]["metadata.year"] == ""


def test_json_lines_are_what_the_command_prints(a_hit: MakeHit) -> None:
    hit = a_hit(title="=1+1", text="ä")
    assert [json.loads(line) for line in json_lines_of([hit, hit]).splitlines()] == [
        json.loads(json.dumps(hit.to_json()))
    ] * 2


def test_examples_read_like_queries() -> None:
    passages = [
        ("Short", "A first sentence that is fine. And another."),
        ("A first sentence that is fine", "said twice"),
        ("x" * 91, "y" * 91),
        ("Why do owls turn their heads?", ""),
        ("A fourth title that is good", ""),
        ("Never reached at all", ""),
    ]
    assert example_queries(passages) == [
        "A first sentence that is fine",
        "Why do owls turn their heads?",
        "A fourth title that is good",
    ]


def test_clusters_whose_central_passages_are_no_queries_leave_the_first_documents_as_examples() -> None:
    central = SimpleNamespace(level=0, central=[SimpleNamespace(title="", text="x" * 91)])
    explore = SimpleNamespace(clusters=lambda: SimpleNamespace(clusters=[central]))
    documents = [SimpleNamespace(title="", text="Why do owls turn their heads? They must.")]
    collection = SimpleNamespace(explore=explore, documents=lambda: iter(documents))
    found = telling(SimpleNamespace(collection=collection), SimpleNamespace(clusters=1, passages=2))
    assert example_queries(found) == ["Why do owls turn their heads?"]


def test_a_document_shows_its_passage_and_no_markup() -> None:
    text, start = f"before {_EVIL} inside after", 7 + len(_EVIL) + 1
    made = document_html(text, start, start + 6, 0, len(text))
    assert '<span class="ns-passage">inside</span> after' in made
    assert "<img" not in made


def test_of_a_document_one_page_is_shown_with_what_it_holds_of_the_passage() -> None:
    text = "a" * 50 + "THIS" + "b" * 50
    assert '>… aaaaaaaaaa<span class="ns-passage">TH</span> …<' in document_html(text, 50, 54, 40, 52)
    assert '>… <span class="ns-passage">IS</span>bb …<' in document_html(text, 50, 54, 52, 56)
    assert "ns-passage" not in document_html(text, 50, 54, 60, 70)
    assert ">… bb<" in document_html(text, 0, 4, 102, 104)


@given(st.text("ab \n", max_size=500), st.integers(1, 40), st.integers(0, 20))
def test_the_pages_of_a_text_are_all_of_it_once_and_in_order(text: str, size: int, slack: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(full_document, "_PAGE", size)
        patch.setattr(full_document, "_SLACK", min(slack, size - 1))
        edges = [page_edges(text, page) for page in range(page_count(text))]
        assert "".join(text[first:last] for first, last in edges) == text
        for place in range(len(text)):
            first, last = edges[page_at(text, place)]
            assert first <= place < last


def test_a_page_ends_with_a_line_or_a_word_where_one_ends_nearby() -> None:
    words, lines = "word " * 5_000, ("word " * 19 + "end.\n") * 300
    assert words[: page_edges(words, 0)[1]].endswith("word ")
    assert lines[: page_edges(lines, 0)[1]].endswith("end.\n")
    assert page_edges("x" * 25_000, 1) == (10_000, 20_000)
    assert page_edges("", 0) == (0, 0)


def test_the_command_says_the_same_and_takes_any_text() -> None:
    asked = Asked("-it's", SearchMode.DENSE, 5, True, True, {}, "year = 3", 0)
    read = checked(search_arguments("papers", asked)).subject
    assert (read["command"], read["collection"], read["query"]) == ("search", "papers", "-it's")
    assert (read["limit"], read["mode"], read["where"]) == (5, "dense", "year = 3")
    assert (read["by_document"], read["explain"]) == (True, True)
    like = replace(asked, query="", expert="", like=("a", "-b"), unlike=("c",))
    read = checked(search_arguments("papers", like)).subject
    assert (read["command"], read["ids"], read["without"]) == ("similar", ["a", "-b"], ["c"])
    assert (read["where"], read["by_document"]) == (None, True)


def test_values_are_written_for_a_label() -> None:
    assert label_of(True) == "true"
    assert label_of("two\nlines", 1203) == "two lines (1,203)"
    assert len(label_of("x" * 100)) == 60
    assert str(day_of("2021-03-05T10:00")) == "2021-03-05"
    assert day_of("2021-13-45") is None
    assert day_of(None) is None


def test_of_a_very_long_passage_a_beginning_is_sent(a_hit: MakeHit) -> None:
    html = card_html(a_hit(text="Some words. " * 100_000), SearchMode.DENSE)
    assert 15_000 < len(html) < 30_000
