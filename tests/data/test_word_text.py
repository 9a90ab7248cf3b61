"""Reading Word documents."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from naming import Naming

from nearsay.data.document import Document
from nearsay.data.json_values import UnusableRowError
from nearsay.data.reading import read
from nearsay.data.word_text import word_text

Write = Callable[[str, str | bytes], str]
WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
MATHS = "http://schemas.openxmlformats.org/officeDocument/2006/math"
RELATION = '<Relationship Type="http://x/{}" Target="{}"/>'


def word(
    body: str, title: str | None = None, *, space: str = WORDS, main: str = "word/document.xml"
) -> bytes:
    """A Word document with this body, as Word packs it."""
    relations = RELATION.format("officeDocument", main)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        if title is not None:
            relations += RELATION.format("metadata/core-properties", "docProps/core.xml")
            dublin = 'xmlns:dc="http://purl.org/dc/elements/1.1/"'
            archive.writestr("docProps/core.xml", f"<p {dublin}><dc:title>{title}</dc:title></p>")
        archive.writestr("_rels/.rels", f"<Relationships>{relations}</Relationships>")
        mc = "http://schemas.openxmlformats.org/markup-compatibility/2006"
        archive.writestr(
            main, f'<w:document xmlns:w="{space}" xmlns:mc="{mc}"><w:body>{body}</w:body></w:document>'
        )
    return stream.getvalue()


def paragraph(*runs: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}{''.join(f'<w:r><w:t>{run}</w:t></w:r>' for run in runs)}</w:p>"


def cell(*paragraphs: str) -> str:
    return f"<w:tc>{''.join(map(paragraph, paragraphs))}</w:tc>"


TABLE = (
    f"<w:tbl><w:tr>{cell('a')}{cell('b', 'c')}</w:tr><w:tr>{cell('1')}{cell('')}</w:tr>"
    f"<w:tr>{cell('')}{cell('')}</w:tr></w:tbl>"
)

RUBY = (
    "<w:p><w:r><w:ruby><w:rt><w:r><w:t>かん</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>漢</w:t></w:r></w:rubyBase>"
    "</w:ruby></w:r></w:p>"
)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (paragraph("Heading", style="Heading1") + paragraph("One ", "two."), "Heading\n\nOne two."),
        (
            paragraph("before") + TABLE + TABLE + paragraph("after"),
            "before\n\na | b c\n1 |\n\na | b c\n1 |\n\nafter",
        ),
        ("<w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r></w:p>", "a b\nc"),
        (f"<w:sdt><w:sdtContent>{paragraph('in a control')}</w:sdtContent></w:sdt>", "in a control"),
        (
            "<w:p><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:del><w:r><w:delText>old</w:delText></w:r></w:del></w:p>",
            "new",
        ),
        (RUBY, "漢"),
        ("<w:p><w:moveFrom><w:r><w:t>gone</w:t></w:r></w:moveFrom><w:r><w:t>here</w:t></w:r></w:p>", "here"),
        (
            "<w:p><w:r><w:t>outer</w:t><mc:AlternateContent><mc:Choice><w:txbxContent>"
            + paragraph("box")
            + "</w:txbxContent></mc:Choice><mc:Fallback><w:txbxContent>"
            + paragraph("box")
            + "</w:txbxContent></mc:Fallback></mc:AlternateContent></w:r></w:p>",
            "box\n\nouter",
        ),
        (paragraph("R&amp;D &lt;b&gt; été"), "R&D <b> été"),
        (
            f'<w:p><m:oMath xmlns:m="{MATHS}"><m:r><m:t>a=b</m:t></m:r></m:oMath></w:p>',
            "a=b",
        ),
        ("<w:p><w:r><w:t>left</w:t><w:ptab/><w:t>right</w:t></w:r></w:p>", "left right"),
    ],
    ids=[
        *("paragraphs", "tables", "tabs", "controls", "revisions", "readings", "moves", "boxes", "letters"),
        *("formulas", "placed tabs"),
    ],
)
@pytest.mark.parametrize("space", [WORDS, STRICT])
def test_a_word_document_is_one_document_of_its_paragraphs_and_tables(
    write: Write, tmp_path: Path, body: str, text: str, space: str
) -> None:
    path = (tmp_path / "a.docx").as_posix()
    reading = read([write("a.docx", word(body, " The\n title ", space=space))])
    assert list(reading) == [Document(text, path, "The title", {}, path)]
    assert reading.bytes_read == reading.bytes_total


def test_without_a_title_among_the_properties_the_paragraph_of_that_style_is_it(write: Write) -> None:
    body = paragraph("Subject", style="Title") + paragraph("text")
    for title in (None, ""):
        (document,) = read([write("a.docx", word(body, title, main="word/document2.xml"))])
        assert isinstance(document, Document)
        assert document.title == "Subject"


def test_a_word_document_without_text_is_a_fault(write: Write) -> None:
    assert [str(item) for item in read([write("a.docx", word(paragraph("")))])] == [
        Naming("a.docx", "no text")
    ]


def test_a_text_that_is_too_long_is_not_handed_on(write: Write) -> None:
    path = write("a.docx", word(paragraph("long " * 10)))
    with pytest.raises(UnusableRowError, match="48 bytes"):
        word_text(Path(path), 48)
    assert len(word_text(Path(path), 49).text) == 49
