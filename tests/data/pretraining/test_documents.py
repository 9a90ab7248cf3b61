"""Sources as documents of sentences."""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.documents import TextSources
from nearsay.data.pretraining.prepare_options import PrepareOptions
from nearsay.data.read_options import ReadOptions

Documents = list[list[str]]


def read(
    sources: list[object], stdin: bytes = b"", **options: object
) -> tuple[Documents, list[str], list[str]]:
    """Give the documents as lists of sentences, the notes and the faults."""
    notes: list[str] = []
    faults: list[str] = []
    text = TextSources(
        sources,
        PrepareOptions(**options),
        stdin=io.BytesIO(stdin),
        note=notes.append,
        fault=lambda fault: faults.append(str(fault)),
    )
    documents: Documents = []
    for part in text:
        if part.begins:
            documents.append([])
        documents[-1].extend(part.sentences)
    if text.bytes_total is not None:
        assert text.bytes_read == text.bytes_total
    return documents, notes, faults


def test_blank_lines_end_documents_and_lines_are_cut_into_sentences(
    write: Callable[..., Path], harbour: str
) -> None:
    assert read([write("harbour.txt", f"\n \n{harbour}\n\n\t\n")]) == (
        [
            ["The boat came late.", "The net was empty.", "A gull left."],
            ["The fog lifted again.", "The old rope was sold.", "It was late."],
        ],
        [],
        [],
    )


def test_a_line_that_is_too_long_is_named_without_an_option_that_trainings_do_not_have(
    write: Callable[..., Path],
) -> None:
    odd = write("odd.txt", "It was late and dark.\nA gull left.\n")
    documents, _, faults = read([odd], reading=ReadOptions(max_text_bytes=15))
    assert (documents, faults) == ([["A gull left."]], [Naming("odd.txt:1", "15 bytes")])
    assert "--" not in faults[0]


def test_what_is_guessed_of_rows_does_not_ask_for_ids(write: Callable[..., Path]) -> None:
    _, notes, _ = read([write("rows.jsonl", '{"text": "It was late."}\n')])
    assert notes == [Naming("text = 'text'", "id = none, title = none")]


def test_a_line_can_be_a_sentence_as_it_is(write: Callable[..., Path], harbour: str) -> None:
    documents, _, _ = read([write("harbour.txt.gz", harbour)], one_sentence_a_line=True)
    assert documents == [
        ["The boat came late. The net was empty.", "A gull left."],
        ["The fog lifted again.", "The old rope was sold. It was late."],
    ]


def test_files_can_be_documents_with_wrapped_paragraphs(write: Callable[..., Path]) -> None:
    one = write("one.txt", "The old\nrope was\nsold. It was late.\n\nA gull left.\n")
    two = write("two.txt", "Fog.\n")
    documents, _, _ = read([one, two], breaks="files")
    assert documents == [["The old\nrope was\nsold.", "It was late.", "A gull left."], ["Fog."]]


def test_files_can_be_documents_with_a_sentence_a_line(write: Callable[..., Path]) -> None:
    one = write("one.txt", "Rope sold. Late.\n\nA gull left.\n")
    assert read([one], breaks="files", one_sentence_a_line=True)[0] == [["Rope sold. Late.", "A gull left."]]


def test_a_file_ends_a_document_without_a_blank_line(write: Callable[..., Path]) -> None:
    sources = [write("one.txt", "One."), write("two.txt", "Two.")]
    assert read(sources)[0] == [["One."], ["Two."]]


def test_headings_begin_documents_as_in_wikitext(write: Callable[..., Path]) -> None:
    text = (
        " \n = Boats = \n \n A boat floats . It is wet . \n"
        " \n = = Sails = = \n \n = = = Of canvas = = = \n \n Sails pull . \n"
        " = Gulls = \n Gulls cry . \n = = Food = = \n Fish . \n x = 1 = 2 \n == \n"
    )
    documents, _, _ = read([write("wiki.txt", text)], breaks="headings", one_sentence_a_line=True)
    assert documents == [
        ["A boat floats . It is wet .", "Sails pull ."],
        ["Gulls cry .", "Fish .", "x = 1 = 2", "=="],
    ]


def test_rows_are_documents_whatever_blank_lines_are_in_them(write: Callable[..., Path]) -> None:
    rows = [{"id": "a", "body": "One. Two.\n\nThree."}, {"id": "b", "body": "Four."}]
    source = write("rows.jsonl", "\n".join(map(json.dumps, rows)))
    documents, _, faults = read([source], reading=ReadOptions(text="body"))
    assert documents == [["One.", "Two.", "Three."], ["Four."]]
    assert not faults
    lines, _, _ = read([source], reading=ReadOptions(text="body"), one_sentence_a_line=True)
    assert lines == [["One. Two.", "Three."], ["Four."]]


def test_markdown_files_are_documents(write: Callable[..., Path]) -> None:
    one = write("notes/one.md", "# Ropes\n\nA rope. A net.\n")
    write("notes/two.md", "Gulls.\n")
    documents, _, _ = read([one.parent])
    assert documents == [["Ropes", "A rope.", "A net."], ["Gulls."]]


def test_a_guessed_field_is_noted(write: Callable[..., Path]) -> None:
    _, notes, _ = read([write("rows.jsonl", '{"text": "One."}')])
    assert len(notes) == 1
    assert "text = 'text' (guessed)" in notes[0]


def test_bad_rows_and_lines_are_faults_and_the_rest_goes_on(write: Callable[..., Path]) -> None:
    rows = write("rows.jsonl", '{"text": "One."}\n{"text": \n{"text": ""}\n{"text": "Two."}\n')
    lines = write("lines.txt", b"Good.\nbad \xff byte.\nnul \0 here.\nBetter.\n")
    documents, _, faults = read([rows, lines])
    assert documents == [["One."], ["Two."], ["Good.", "Better."]]
    assert [fault.split(": ")[0] for fault in faults] == [
        f"{rows}:2",
        f"{rows}:3",
        f"{lines}:2",
        f"{lines}:3",
    ]


def test_damaged_gzip_gives_what_is_before_the_damage(write: Callable[..., Path]) -> None:
    path = write("cut.txt.gz", "".join(f"Line {number}.\n" for number in range(5000)))
    path.write_bytes(path.read_bytes()[:-2000])
    documents, _, faults = read([path])
    assert documents[0][0] == "Line 0."
    assert 0 < len(documents[0]) < 5000
    assert len(faults) == 1
    assert "damaged gzip data" in faults[0]
    no_gzip = write("none.txt", "One.").rename(path.with_name("none.txt.gz"))
    assert read([no_gzip])[2] == [Naming(f"{no_gzip}", ".gz", "not gzip")]


def test_fields_that_do_not_fit_stop_a_named_file_and_not_a_found_one(write: Callable[..., Path]) -> None:
    odd = write("folder/odd.csv", "price,weight\n1,2\n")
    write("folder/good.csv", "text\nOne.\n")
    wanted = ReadOptions(text="text")
    with pytest.raises(BadInputError, match=r"odd\.csv"):
        read([odd], reading=wanted)
    documents, _, faults = read([odd.parent], reading=wanted)
    assert documents == [["One."]]
    assert len(faults) == 1
    with pytest.raises(BadInputError, match=r"odd\.csv"):
        read([odd.parent], reading=wanted, strict=True)


def test_standard_input_is_read_when_its_format_is_said() -> None:
    assert read(["-"], b"One.\n\nTwo.\n", reading=ReadOptions(format="txt"))[0] == [["One."], ["Two."]]
    rows = b'{"text": "One. Two."}\n'
    assert read(["-"], rows, reading=ReadOptions(format="jsonl"))[0] == [["One.", "Two."]]
    with pytest.raises(BadInputError, match=r"<stdin>.*text\.txt.*ReadOptions\(format="):
        read(["-"], b"One.\n")


def test_what_a_pipe_holds_is_asked_without_an_option_that_the_commands_lack(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInputError, match=r"pipe .*file") as raised:
        read([tmp_path / "pipe"])
    assert "--" not in str(raised.value)


def test_what_does_not_exist_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="does not exist"):
        read([tmp_path / "nowhere.txt"])


@pytest.mark.parametrize("glue", ["", " "])
def test_what_is_too_long_for_a_sentence_is_cut(write: Callable[..., Path], glue: str) -> None:
    line = glue.join(["gull"] * 50_000)
    (sentences,), _, _ = read([write("long.txt", line)], one_sentence_a_line=True)
    assert max(map(len, sentences)) <= 2**16
    assert glue.join(sentences) == line


def test_a_long_row_is_cut_between_paragraphs(write: Callable[..., Path]) -> None:
    paragraphs = [f"Gull number {number} came." for number in range(60_000)]
    source = write("rows.jsonl", json.dumps({"text": "\n\n".join(paragraphs)}))
    assert read([source])[0] == [paragraphs]


def test_a_long_wrapped_paragraph_is_taken_in_pieces(write: Callable[..., Path]) -> None:
    lines = [f"Gull number {number} came." for number in range(60_000)]
    assert read([write("long.txt", "\n".join(lines))], breaks="files")[0] == [lines]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"breaks": "never"}, "'never'.*blank-lines, files, headings"),
        ({"language": "?"}, "is no code"),
        ({"shard_tokens": 0}, "shard_tokens is 0; give 1 to"),
    ],
)
def test_options_that_cannot_be_are_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        PrepareOptions(**wrong)


def test_text_that_the_sentence_finder_fails_on_is_one_sentence(write: Callable[..., Path]) -> None:
    """sentencex panics where a period comes after a character of several bytes, such as U+0085."""
    documents, _, faults = read([write("odd.txt", "It was late. A gull left.\n(\tB\t\x85.😀ß\n")])
    assert (documents, faults) == ([["It was late.", "A gull left.", "(\tB\t\x85.😀ß"]], [])


def test_a_text_is_read_in_the_encoding_that_its_bytes_speak_for(tmp_path: Path) -> None:
    (tmp_path / "café.txt").write_bytes("Le café était fermé. Il pleuvait à Orléans.\n".encode("cp1252") * 20)
    documents, notes, faults = read([tmp_path / "café.txt"], language="fr")
    assert documents == [["Le café était fermé.", "Il pleuvait à Orléans."] * 20]
    assert (["cp1252" in note for note in notes], faults) == ([True], [])
