"""Reading Markdown, HTML and PDF files."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naming import Naming
from pypdf import PdfReader, PdfWriter
from pypdf.errors import DependencyError
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from nearsay.data import reading_process
from nearsay.data.document import Document
from nearsay.data.errors import MissingExtraError
from nearsay.data.html_text import html_encoding, html_text
from nearsay.data.json_values import UnusableRowError
from nearsay.data.markdown_text import markdown_text
from nearsay.data.read_options import Format, ReadOptions
from nearsay.data.reading import read
from nearsay.data.whole_files import _without_rubbish

# Markdown

NOTE = """---
title: The title
date: 2024-03-01
tags: [a, b]
score: .nan
---
# Heading *one*

A [link](http://x.y "t"), ![an image](i.png), `code`,
a second line.  \nA third. <b>bold</b> &amp; ~~gone~~

- first
- second
  1. inner

```python
x = 1
```

| a | b |
|---|---|
| 1 | 2 |

<div>In <i>HTML</i><script>no()</script></div>

> quoted
"""


def test_markdown_becomes_readable_text(
    read_file: Callable[..., tuple[list[Document], list[str]]], tmp_path: Path
) -> None:
    path = (tmp_path / "a.md").as_posix()
    text = (
        "Heading one\n\nA link, an image, code, a second line.\nA third. bold & gone\n\n"
        "first\nsecond\ninner\n\nx = 1\n\na | b\n1 | 2\n\nIn HTML\n\nquoted"
    )
    metadata = {"date": "2024-03-01", "tags": ["a", "b"], "score": None}
    assert read_file("a.md", NOTE) == ([Document(text, path, "The title", metadata, path)], [])


def test_of_wiki_links_what_they_show_is_read() -> None:
    note = "See [[Page]], [[Folder/Page#Part|that part]] and ![[a.png|300]]; [[a]](b), `[[ -f x ]]`, x[[1]]"
    table = "\n\n| a |\n|---|\n| [[Page\\|p]] |"
    assert markdown_text(note + table).text == (
        "See Page, that part and a.png; [a], [[ -f x ]], x[[1]]\n\na\np"
    )


def test_front_matter_is_read_as_yaml_1_2_and_tables_are() -> None:
    note = """---
title: Yes
country: NO
time: 12:30
postcode: 01067
big: 1_000
quoted: "7"
draft: true
year: 2024
share: -0.5
none:
on: Mon
---
x"""
    found = markdown_text(note)
    assert found.title == "Yes"
    strings = {"country": "NO", "time": "12:30", "postcode": "01067", "big": "1_000", "quoted": "7"}
    others = {"draft": True, "year": 2024, "share": -0.5, "none": None, "on": "Mon"}
    assert found.metadata == strings | others


def test_the_first_heading_is_the_title_without_front_matter() -> None:
    assert markdown_text("text\n\nA *good* title\n---\n\n# Other").title == "A good title"
    assert markdown_text("no heading").title == ""


def test_front_matter_in_toml_is_read_as_hugo_writes_it() -> None:
    note = """+++
title = 'The title'
date = 2024-03-01T09:30:00Z
day = 2024-03-01
tags = ["a", "b"]
[params]
  weight = 3
+++

---
Text below rules.

+++
"""
    found = markdown_text(note)
    assert (found.title, found.text) == ("The title", "Text below rules.\n\n+++")
    assert found.metadata == {
        "date": "2024-03-01T09:30:00+00:00",
        "day": "2024-03-01",
        "tags": ["a", "b"],
        "params": {"weight": 3},
    }
    assert markdown_text("+++\nno end").text == "+++ no end"
    assert markdown_text("+++\n+++\n---\nb: 1\n---\nx").metadata == {}


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>a <video><source src=x>No video here.</video>b</p><audio>No audio.</audio>", "a b"),
        ("<math><semantics><mi>x</mi><annotation encoding='tex'>\\x</annotation></semantics></math>", "x"),
        ("<button><svg><title>Menu</title><desc>bars</desc></svg>Open</button>", "Open"),
        ("<p>a<i style='color: red; DISPLAY :none !important'>b</i></p><div style=display:none>c</div>", "a"),
        (
            "<body style='display:none'><p style='--no-display: none'>a</p><i style='display: none-b'>b</i>",
            "a\nb",
        ),
        ("<p>Donau&shy;dampf&shy;schiff</p>", "Donaudampfschiff"),
    ],
    ids=["players", "formulas", "drawings", "not displayed", "displayed", "soft hyphens"],
)
def test_what_a_page_does_not_show_is_no_text(markup: str, text: str) -> None:
    assert html_text(markup).text == text


def test_readings_above_characters_are_no_text() -> None:
    page = "<p><ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp>字<rp>(</rp><rt>じ</rt><rp>)</rp></ruby>です</p>"
    assert html_text(page).text == "漢字です"


def test_two_rules_are_no_front_matter() -> None:
    note = markdown_text("---\njust words\n---\nmore")
    assert (note.text, dict(note.metadata)) == ("just words\n\nmore", {})


def test_two_tables_stand_apart() -> None:
    table = "| a |\n|---|\n| 1 |\n"
    assert markdown_text(f"{table}\n{table}").text == "a\n1\n\na\n1"


def test_loose_lists_and_code_in_lists_are_kept() -> None:
    assert markdown_text("- a\n\n- b\n\n      code\n").text == "a\n\nb\n\ncode"


def test_a_line_break_of_html_in_markdown_parts_words() -> None:
    table = "| a<br>b | c |\n|---|---|\n| d<BR />e | f |"
    assert (
        markdown_text(f"one<br>two<br/>three <b>f</b>our\n\n{table}").text
        == "one two three four\n\na b | c\nd e | f"
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("---\na: [1\n---\nx", "the front matter is not YAML"),
        ("+++\na = [1\n+++\nx", "the front matter is not TOML"),
        ("+++\na = 1\na = 2\n+++\nx", "the front matter is not TOML"),
        ('+++\na = "\\u0000"\n+++\nx', "NUL"),
        ("+++\n" + "a" + ".a" * 40 + " = 1\n+++\nx", "nested deeper than 32 levels"),
        ("---\ndate: 2024-13-45\n---\nx", "not YAML: month must be in 1..12"),
        ('---\na: "\\0"\n---\nx', "NUL"),
        ("---\n" + "a: " + "[" * 5000 + "\n---\nx", "the front matter is not YAML"),
        ("---\n" + "a: " + "[" * 50 + "]" * 50 + "\n---\nx", "nested deeper than 32 levels"),
        ("---\na: &a [*a]\n---\nx", "nested deeper than 32 levels"),
        ("---\na: !!python/object/apply:os.system ['true']\n---\nx", "the front matter is not YAML"),
        (
            "---\na: &a [x,x,x,x,x,x,x,x,x]\n"
            + "".join(
                f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
            )
            + "---\nx",
            "holds more than 100,000 values",
        ),
    ],
)
def test_front_matter_that_cannot_be_used_is_a_fault(text: str, reason: str) -> None:
    with pytest.raises(UnusableRowError, match=reason.replace(".", r"\.")):
        markdown_text(text)


def test_chosen_metadata_alone_is_kept_from_front_matter(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    note = "---\nyear: 2019\nvenue: acl\n---\ntext"
    assert read_file("a.md", note, metadata=("venue", "nope"))[0][0].metadata == {"venue": "acl"}
    assert read_file("a.md", note, metadata=())[0][0].metadata == {}


def test_an_empty_note_is_a_fault(read_file: Callable[..., tuple[list[Document], list[str]]]) -> None:
    assert read_file("a.md", "---\ntitle: x\n---\n") == ([], [Naming("a.md", "no text")])


@given(st.text(max_size=200))
def test_any_markdown_is_read(text: str) -> None:
    try:
        found = markdown_text(text.replace("\0", ""))
    except UnusableRowError:
        return
    assert isinstance(found.text, str)


# HTML


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>One <b>two</b>\n three.</p><p>Four</p>", "One two three.\nFour"),
        ("a<br>b<script>x()</script><style>p{}</style><noscript>n</noscript><template>t</template>", "a\nb"),
        ("<ul><li>a<li>b</ul>c", "a\nb\nc"),
        ("<table><tr><td>1<td>2<tr><td>3</table>", "1 2\n3"),
        ("<pre>x = 1\n  y</pre>z", "x = 1\n  y\nz"),
        ("<p hidden>no</p><p>yes <!-- no --></p>", "yes"),
        ("&lt;tag&gt; &amp; caf&eacute;", "<tag> & café"),
        ("<div>a<div>b<div>c</div></div>d</div>", "a\nb\nc\nd"),
        ("<select><option>a<option>b</select>", "a\nb"),
        ("", ""),
        ("<html><head><title>only</title></head></html>", ""),
    ],
)
def test_html_becomes_the_text_a_reader_sees(markup: str, text: str) -> None:
    assert html_text(markup).text == text


def test_the_title_is_the_heads_alone() -> None:
    page = html_text("<head><title> A\n title </title></head><body><svg><title>no</title></svg>x")
    assert page.title == "A title"


def test_html_as_deep_as_can_be_is_read() -> None:
    assert html_text("<div>" * 20_000 + "deep").text == "deep"
    assert html_text("<b>" * 3_000 + "deep").text == "deep"


@given(
    st.lists(
        st.sampled_from(
            ["<p>", "</p>", "<pre>", "</pre>", "<td>", "<b>", "</b>", "<br>", "<li>", "w", "<!-- "]
        )
    )
)
def test_any_html_is_read(pieces: list[str]) -> None:
    assert isinstance(html_text("".join(pieces)).text, str)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b'<meta charset="utf-8">', "utf-8"),
        (b"<META content='text/html; charset=ISO-8859-1'>", "cp1252"),
        (b"<meta charset=gb2312>", "gb18030"),
        (b"<meta charset=Shift_JIS>", "cp932"),
        (b"<meta charset=EUC-KR>", "cp949"),
        (b"<meta charset=iso-8859-9>", "cp1254"),
        (b"<meta charset=TIS-620>", "cp874"),
        (b"<meta charset=utf-16>", "utf-8"),
        (b"<?xml version='1.0' encoding='iso-8859-2'?><html>", "iso8859-2"),
        (b'<?xml version="1.0" encoding="utf-8"?><meta charset=iso-8859-9>', "cp1254"),
        (b"a <?xml version='1.0' encoding='iso-8859-2'?>", None),
        (b"<meta charset=nope>", None),
        (b"<meta charset=base64>", None),
        (b"no", None),
    ],
)
def test_the_encoding_that_a_page_declares_is_known(content: str | bytes, name: str) -> None:
    assert html_encoding(content) == name


def test_html_files_are_decoded_by_mark_option_or_declaration(
    read_file: Callable[..., tuple[list[Document], list[str]]], tmp_path: Path
) -> None:
    page = '<meta charset="{}"><title>é</title><p>été'
    path = (tmp_path / "a.html").as_posix()
    expected = [Document("été", path, "é", {}, path)]
    for content, options in (
        (page.format("iso-8859-1").encode("latin-1"), {}),
        (page.format("cp1251").encode("utf-16"), {}),
        (page.format("cp1251").encode("utf-8-sig"), {}),
        (page.format("cp1251").encode("cp1252"), {"encoding": "cp1252"}),
        (page.format("nope").encode(), {}),
    ):
        assert read_file("a.html", content, **options) == (expected, [])


def test_html_files_that_cannot_be_used_are_faults(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    assert read_file("a.html", "<p>été\nà la\n".encode() + b"plage \xe9t\xe9")[1] == [
        Naming("a.html:3", "byte 7", "utf-8", "--encoding cp1252")
    ]
    assert read_file("b.html", "<p>\n\0")[1] == [Naming("b.html:2", "NUL")]
    assert read_file("c.html", "<p>")[1] == [Naming("c.html", "no text")]
    assert read_file("d.html", "<p>" + "x" * 90, max_text_bytes=10)[1] == [
        Naming("d.html", "file", "80 bytes", "--max-text-bytes")
    ]
    assert read_file("e.html", "<p>" + "x" * 11, max_text_bytes=10)[1] == [
        Naming("e.html", "text", "10 bytes", "--max-text-bytes")
    ]


# The main part of a page

MENU = "<nav>Home Products</nav>"
BANNER = '<div id="cookie-banner">We use cookies.</div>'
FOOTER = "<footer>Imprint</footer>"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (f"{MENU}<main><h1>T</h1><p>The text.</p></main>{FOOTER}", "T\nThe text."),
        (f"{MENU}<div role=main>The text.</div>{BANNER}", "The text."),
        (f"{MENU}<article><header>T</header>The text.</article>{FOOTER}", "T\nThe text."),
        (f"<main>{MENU}The text.{BANNER}<aside>More</aside><form>Mail?</form></main>", "The text."),
        ("<main><div role=dialog>Subscribe!</div>The text.<dialog open>No</dialog></main>", "The text."),
        ("<main><form><h1>T</h1>The text.</form></main>", "T\nThe text."),
        ("<main><article>One.</article><article>Two.</article></main>", "One.\nTwo."),
        ("<main><p class=cookie-recipe>Flour.</p></main>", "Flour."),
        ("<main hidden>No</main><main>Yes</main>", "Yes"),
        # not clear which is the page's own part, or none: read whole
        (f"{MENU}<p>The text.</p>", "Home Products\nThe text."),
        (f"{MENU}<article>One.</article><article>Two.</article>", "Home Products\nOne.\nTwo."),
        (f"{MENU}<main>{MENU}</main>", "Home Products\nHome Products"),
        ("<main>Loading</main><div>" + "word " * 200 + "</div>", "Loading\n" + ("word " * 200).strip()),
    ],
)
def test_a_page_with_a_clear_main_part_is_that_part(markup: str, text: str) -> None:
    assert html_text(markup, main_content=True).text == text


def test_that_a_page_was_shortened_is_said_and_an_option_takes_it_whole(
    write: Callable[[str, str], str],
) -> None:
    write("a.html", f"{MENU}<main>The text.</main>")
    write("b.html", "<main>The text.</main>")
    reading = read(["a.html", "b.html"])
    assert [item.text for item in reading] == ["The text.", "The text."]
    (note,) = reading.notes
    assert note == Naming("a.html", "main part")
    assert "--whole-page" in note
    reading = read(["a.html"], ReadOptions(metadata=()))  # of commands that have no such option
    assert len(list(reading)) == 1
    assert "--whole-page" not in "".join(reading.notes)
    reading = read(["a.html"], ReadOptions(whole_page=True))
    assert [item.text for item in reading] == ["Home Products\nThe text."]
    assert reading.notes == []


def test_a_title_that_begins_the_text_is_not_said_twice(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    for name, content in (
        ("a.md", "# The *cat*\n\nIt sat."),
        ("a.html", "<title>The cat</title><h1>The\ncat</h1><p>It sat.</p>"),
    ):
        (document,) = read_file(name, content)[0]
        assert (document.title, document.text) == ("The cat", "It sat.")
    assert read_file("b.md", "# The cat")[0][0].text == "The cat"
    assert read_file("c.md", "# The cat\n\nThe cat sat.")[0][0].text == "The cat sat."


def test_author_and_date_of_a_page_are_metadata(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    head = (
        '<meta charset="utf-8"><meta name="Author" content=" Ada\n Lovelace"><meta name="author" content="B">'
        '<meta property="article:published_time" content="2024-03-01"><meta name="viewport" content="x">'
        '<meta name="date" content="">'
    )
    (document,) = read_file("a.html", f"<head>{head}</head><p>Text</p>")[0]
    assert document.metadata == {"author": "Ada Lovelace", "date": "2024-03-01"}
    assert read_file("a.html", f"<head>{head}</head><p>Text</p>", metadata=("date",))[0][0].metadata == {
        "date": "2024-03-01"
    }


# PDF


def make_pdf(
    *pages: str, title: str = "", reader: str = "", owner: str = "", algorithm: str = "RC4-128"
) -> bytes:
    import io

    writer = PdfWriter()
    font = {
        "/Type": "/Font",
        "/Subtype": "/Type1",
        "/BaseFont": "/Helvetica",
        "/Encoding": "/WinAnsiEncoding",
    }
    font_object = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
    for text in pages:
        page = writer.add_blank_page(200, 200)
        stream = DecodedStreamObject()
        lines = " 0 -14 Td ".join(f"({line}) Tj" for line in text.split("\n"))
        stream.set_data(f"BT /F1 12 Tf 10 100 Td {lines} ET".encode("latin-1"))
        page[NameObject("/Contents")] = writer._add_object(stream)
        fonts = DictionaryObject({NameObject("/F1"): font_object})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    if title:
        writer.add_metadata({"/Title": title})
    if reader or owner:
        writer.encrypt(reader, owner or None, algorithm=algorithm)
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def test_a_pdf_is_one_document_of_its_pages(write: Callable[[str, str | bytes], str], tmp_path: Path) -> None:
    path = (tmp_path / "a.pdf").as_posix()
    reading = read([write("a.pdf", make_pdf("First page", "", "Third page", title=" The title "))])
    assert list(reading) == [Document("First page\n\nThird page", path, "The title", {"pages": 3}, path)]
    assert reading.bytes_read == reading.bytes_total


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256"])
def test_a_pdf_that_only_its_owner_may_change_is_read(
    read_file: Callable[..., tuple[list[Document], list[str]]], algorithm: str
) -> None:
    documents, _ = read_file("a.pdf", make_pdf("words", owner="secret", algorithm=algorithm))
    assert documents[0].text == "words"
    _, faults = read_file("b.pdf", make_pdf("words", reader="secret", algorithm=algorithm))
    assert faults == [Naming("b.pdf", "encrypted", "password")]


def test_an_encryption_that_needs_another_package_is_a_fault_that_names_it(
    read_file: Callable[..., tuple[list[Document], list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object) -> NoReturn:
        raise DependencyError("cryptography>=3.1 is required for AES algorithm")

    monkeypatch.setattr(reading_process._Child, "inside", True)
    monkeypatch.setattr(PdfReader, "decrypt", lacking)
    documents, faults = read_file("a.pdf", make_pdf("words", owner="secret"))
    assert (documents, faults) == ([], [Naming("a.pdf", "encrypted", "pip install cryptography")])


def test_the_ligatures_of_a_pdf_are_letters() -> None:
    assert _without_rubbish("oﬃcial ﬁles ﬂow oﬀ\0and\ud800") == "official files flow off and?"


def test_words_that_are_cut_at_the_end_of_a_pdfs_line_are_whole_again(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    lines = (
        "It is de-\npendent on well-\nbeing, and well-being\non state-of-the-\nart Smith-\nJones - a\nname "
        "short-\nand long-term foo-\nbar-\nbaz https://a.org/deep-\nlearning"
    )
    documents, _ = read_file("a.pdf", make_pdf(lines, "of 3-\n4 co-", "operation"))
    assert documents[0].text == (
        "It is dependent on well-being, and well-being\non state-of-the-art Smith-Jones - a\nname "
        "short-\nand long-term foobarbaz https://a.org/deep-learning\n\n"
        "of 3-\n4 co-\n\noperation"
    )


def test_pdfs_that_cannot_be_read_are_faults(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    whole = make_pdf("some words")
    assert read_file("a.pdf", make_pdf("words", reader="secret"))[1] == [
        Naming("a.pdf", "encrypted", "password")
    ]
    assert read_file("b.pdf", make_pdf("", ""))[1] == [Naming("b.pdf", "no text", "(2)")]
    assert read_file("c.pdf", b"")[1][0].startswith("c.pdf: the PDF cannot be read: ")
    assert read_file("d.pdf", b"no pdf at all")[1][0].startswith("d.pdf: the PDF cannot be read: ")
    assert read_file("e.pdf", make_pdf("0123456789"), max_text_bytes=5)[1] == [
        Naming("e.pdf", "5 bytes", "--max-text-bytes")
    ]
    for cut in range(0, len(whole), 37):
        documents, faults = read_file("f.pdf", whole[:cut])
        assert len(documents) + len(faults) == 1


# Missing packages


@pytest.mark.parametrize(
    ("module", "name", "package"),
    [
        ("selectolax.lexbor", "a.html", "documents"),
        ("markdown_it", "a.md", "documents"),
        ("pypdf", "a.pdf", "documents"),
        ("pyarrow", "a.parquet", "parquet"),
    ],
)
def test_a_missing_package_is_named_with_its_install_line(
    write: Callable[[str, str | bytes], str],
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    name: str,
    package: str,
) -> None:
    monkeypatch.setattr(reading_process._Child, "inside", True)  # the process that read would import it
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'nearsay\[{package}\]'"):
        list(read([write(name, "x")]))


def test_formats_are_known_by_their_names(write: Callable[[str, str | bytes], str]) -> None:
    for name, expected in (("a.markdown", Format.MARKDOWN), ("a.HTM", Format.HTML), ("a.tab", Format.TSV)):
        assert read([write(name, "x")]).sources[0].format is expected
