"""What is taken away from the page, and how passages are shown on it."""

from nearsay.app.ui.card import passage_html
from nearsay.app.ui.download import csv_bytes, json_lines_bytes
from nearsay.app.ui.removing import names_html


def test_csv_computes_nothing_and_holds_lists_as_json():
    rows = [{"a": "=1+1", "b": [1, "x"], "c": None}, {"a": 2.5, "b": True, "c": "plain"}]
    assert csv_bytes(rows, ("a", "b", "c")).decode("utf-8-sig").splitlines() == [
        "a,b,c",
        '\'=1+1,"[1, ""x""]",',
        "2.5,true,plain",
    ]


def test_a_column_that_begins_as_a_formula_is_defused_too():
    assert csv_bytes([], ["=cmd"]).decode("utf-8-sig").strip() == "'=cmd"


def test_json_lines_keep_every_letter():
    assert json_lines_bytes([{"a": "é"}, {"a": None}]).decode("utf-8-sig") == '{"a": "é"}\n{"a": null}\n'


def test_a_passage_is_text_and_never_markup():
    html = passage_html(
        title="<b>t</b>", text="<script>x</script>", metadata={"<i>": "<u>"}, note="<s>", below="<p>"
    )
    for tag in ("<b>", "<script>", "<i>", "<u>", "<s>", "<p>"):
        assert tag not in html
    assert "&lt;script&gt;" in html


def test_a_long_passage_is_cut():
    assert "x" * 699 + "…" in passage_html(title="t", text="x" * 800)


def test_of_many_documents_the_first_fifty_are_named():
    html = names_html([f"<d{at}>" for at in range(53)])
    assert html.count("<li>") == 51
    assert "&lt;d49&gt;" in html
    assert "and 3 more" in html
