"""Reading JSON lines."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naming import Naming

from nearsay.data.byte_streams import listed_values
from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.read_options import ReadOptions
from nearsay.data.reading import read

GOOD = '{"text": "good"}'


def test_rows_become_documents_with_id_title_metadata_source_and_line(
    read_file: Callable[..., tuple[list[Document], list[str]]], tmp_path: Path
) -> None:
    row = {
        "id": 7,
        "title": " T ",
        "text": "a text",
        "year": 2019,
        "tags": ["x", {"y": None}],
        "ok": True,
        "n": None,
    }
    documents, faults = read_file("a.jsonl", "\n" + json.dumps(row) + "\n")
    metadata = {"year": 2019, "tags": ["x", {"y": None}], "ok": True, "n": None}
    source = (tmp_path / "a.jsonl").resolve().as_posix()
    assert documents == [Document("a text", "7", "T", metadata, source, 2)]
    assert faults == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{'text': 1}", "column 2"),
        ('{"text": "a"', "column 13"),
        ('{"text": "a"} {"text": "b"}', "column 14"),
        ('["text"]', '["text"]'),
        ("17", "starts with '17'"),
        ('{"year": 1}', "'text' is missing"),
        ('{"text": null}', "'text' is null"),
        ('{"text": 17}', "'text' is a number"),
        ('{"text": true}', "'text' is true or false"),
        ('{"text": ["a"]}', "'text' is a list"),
        ('{"text": {"a": 1}}', "'text' is a mapping"),
        ('{"text": ""}', "the text field 'text' is empty"),
        ('{"text": " \\n\\u00a0"}', "the text field 'text' is empty"),
        ('{"text": "\\u200b \\ufeff\\u200d"}', "the text field 'text' is empty"),
        ('{"text": "a\\u0000b"}', "the text holds a NUL character"),
        ('{"text": "a", "id": "\\u0000"}', "the id holds a NUL character"),
        ('{"text": "a", "title": "\\u0000"}', "the title holds a NUL character"),
        ('{"text": "a", "m": "\\u0000"}', "'m' holds a NUL"),
        ('{"text": "a", "m": [{"k": "\\u0000"}]}', "'m' holds a NUL"),
        ('{"text": "a", "m": {"\\u0000": 1}}', "key of the field 'm' holds a NUL"),
        ('{"text": "a", "\\u0000": 1}', "name holds a NUL"),
        ('{"text": "a\\ud800"}', "text holds a lone surrogate"),
        ('{"text": "a", "id": "\\udfff"}', "id holds a lone surrogate"),
        ('{"text": "a", "title": "\\ud800"}', "title holds a lone surrogate"),
        ('{"text": "a", "m": "\\ud800"}', "'m' holds a lone surrogate"),
        ('{"text": "a", "m": NaN}', "NaN"),
        ('{"text": "a", "m": -Infinity}', "-Infinity"),
        ('{"text": "a", "m": 1e999}', "'m' is inf"),
        ('{"text": "a", "id": 1.5}', "'id' is a number"),
        ('{"text": "a", "id": true}', "'id' is true or false"),
        ('{"text": "a", "id": ["x"]}', "'id' is a list"),
        (json.dumps({"text": "a", "id": "x" * 513}), "id is longer than 512"),
        ('{"text": "a", "id": ' + "9" * 600 + "}", "id is longer than 512"),
        ('{"text": "a", "title": ["x"]}', "'title' is a list"),
        ('{"text": "a", "m": ' + "[" * 40 + "]" * 40 + "}", "'m' is nested deeper than 32"),
        (
            '{"text": "a", "m": ' + "[" * 100_000 + "]" * 100_000 + "}",
            "nested too deeply",
        ),
        ('{"text": "a", "m": ' + "1" * 5000 + "}", "not JSON: Exceeds the limit (4300 digits)"),
    ],
)
def test_a_bad_row_is_a_fault_with_its_line_and_the_rest_goes_on(
    read_file: Callable[..., tuple[list[Document], list[str]]], line: str, reason: str
) -> None:
    first = '{"id": "1", "title": "t", "text": "good", "m": 1}'
    documents, faults = read_file("a.jsonl", f"{first}\n\n{line}\n{GOOD}\n")
    assert [(document.text, document.line) for document in documents] == [("good", 1), ("good", 4)]
    assert faults == [Naming("a.jsonl:3", reason)]


def test_escaped_surrogate_pairs_are_characters(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    documents, faults = read_file("a.jsonl", '{"text": "\\ud83d\\ude00"}\n')
    assert [document.text for document in documents] == ["😀"]
    assert faults == []


@pytest.mark.parametrize("value", ["null", '""', '"  "'])
def test_a_missing_or_empty_id_is_none(
    read_file: Callable[..., tuple[list[Document], list[str]]], value: str
) -> None:
    documents, _ = read_file(
        "a.jsonl", f'{{"text": "a", "id": "1"}}\n{{"text": "a", "id": {value}}}\n{GOOD}\n'
    )
    assert [document.id for document in documents] == ["1", None, None]


def test_numbers_are_titles(read_file: Callable[..., tuple[list[Document], list[str]]]) -> None:
    documents, _ = read_file(
        "a.jsonl", '{"text": "a", "title": 1984}\n{"text": "b", "title": null}', title="title"
    )
    assert [document.title for document in documents] == ["1984", ""]


def test_the_first_name_of_the_list_is_the_text_in_any_case(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    documents, _ = read_file("a.jsonl", '{"abstract": "second", "Body": "first", "other": "third"}')
    assert documents[0].text == "first"
    assert documents[0].metadata == {"abstract": "second", "other": "third"}


def test_the_only_string_field_is_the_text(write: Callable[[str, str | bytes], str]) -> None:
    reading = read([write("a.jsonl", '{"_id": "x", "words": "hello", "n": 1}\n')])
    assert [document.text for document in reading] == ["hello"]
    assert reading.notes == [
        Naming("a.jsonl", "text = 'words' (guessed)", "id = '_id'", "title = none", "metadata = n")
    ]


def test_two_string_fields_that_nobody_knows_are_refused_with_their_names(
    write: Callable[[str, str | bytes], str],
) -> None:
    name = write("a.jsonl", '{"words": "hello", "others": "there"}\n')
    with pytest.raises(BadInputError, match=r"a\.jsonl.* words, others.*--text FIELD"):
        list(read([name]))


@pytest.mark.parametrize("option", ["text", "id", "title", "metadata"])
def test_a_field_that_no_row_has_is_refused_with_the_names_there_are(
    write: Callable[[str, str | bytes], str], option: str
) -> None:
    name = write("a.jsonl", f"{GOOD}\n" * 3)
    value = ("nope",) if option == "metadata" else "nope"
    with pytest.raises(BadInputError, match=rf"'nope'.*text.*--{option} FIELD"):
        list(read([name], ReadOptions(**{option: value})))


@pytest.mark.parametrize("option", ["text", "id", "title"])
def test_a_text_id_or_title_that_stands_inside_metadata_is_named_with_it(
    write: Callable[[str, str | bytes], str], option: str
) -> None:
    name = write("a.jsonl", '{"text": "a", "metadata": {"key": "k"}}\n')
    with pytest.raises(BadInputError, match=rf"'key'.*metadata\.key.*--{option} FIELD"):
        list(read([name], ReadOptions(**{option: "key"})))
    (document,) = read([name], ReadOptions(**{option: "metadata.key"}))
    assert isinstance(document, Document)
    assert getattr(document, option) == "k"


def test_fields_that_are_named_are_found_in_the_first_ten_thousand_rows_and_none_of_these_is_lost(
    write: Callable[[str, str | bytes], str],
) -> None:
    lines = ["bad"] * 3 + ['{"body": "b"}'] * 99 + ['{"body": "b", "late": "x"}'] + ['{"body": "b"}'] * 50
    items = list(read([write("a.jsonl", "\n".join(lines))], ReadOptions(text="body", metadata=("late",))))
    assert [isinstance(item, Fault) for item in items] == [True] * 3 + [False] * 150
    assert [item.line for item in items] == list(range(1, 154))
    assert items[102].metadata == {"late": "x"}
    lines[3:3] = ['{"body": "b"}'] * 9_900
    items = list(read([write("a.jsonl", "\n".join(lines))], ReadOptions(text="late")))
    assert [(item.text, item.line) for item in items if isinstance(item, Document)] == [("x", 10_003)]
    lines.insert(3, '{"body": "b"}')
    with pytest.raises(BadInputError, match="no field 'late'"):
        list(read([write("b.jsonl", "\n".join(lines))], ReadOptions(text="body", metadata=("late",))))


def test_chosen_metadata_alone_is_kept_and_none_when_none_is_chosen(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    row = '{"text": "a", "x": 1, "y": 2}'
    assert read_file("a.jsonl", row, metadata=("y",))[0][0].metadata == {"y": 2}
    assert read_file("a.jsonl", row, metadata=())[0][0].metadata == {}


def test_a_field_called_metadata_is_spread_beside_the_others(
    write: Callable[[str, str | bytes], str],
) -> None:
    row = '{"_id": "1", "title": "t", "text": "a", "metadata": {"year": 2019, "x": "inner"}, "x": "outer"}'
    reading = read([write("a.jsonl", row)])
    (document,) = reading
    assert document.metadata == {"year": 2019, "x": "outer"}
    assert reading.notes == [
        Naming("a.jsonl", "text = 'text' (guessed)", "id = '_id'", "title = 'title'", "metadata = x, year")
    ]


def test_metadata_may_be_called_as_the_text_or_the_id_are(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    inner = {"text": "inner", "id": [1], "title": None, "metadata": {"metadata": 1}}
    row = {"id": "1", "text": "a", "title": "t", "metadata": inner}
    assert read_file("a.jsonl", json.dumps(row))[0][0].metadata == inner


@pytest.mark.parametrize(("name", "key"), [("year", "year"), ("metadata.year", "metadata.year")])
def test_fields_inside_metadata_can_be_chosen(
    read_file: Callable[..., tuple[list[Document], list[str]]], name: str, key: str
) -> None:
    row = '{"text": "a", "metadata": {"year": 2019, "x": 1}}'
    assert read_file("a.jsonl", row, metadata=(name,))[0][0].metadata == {key: 2019}


def test_dotted_names_reach_into_objects(read_file: Callable[..., tuple[list[Document], list[str]]]) -> None:
    documents, _ = read_file(
        "a.jsonl", '{"page": {"body": {"en": "hello"}}, "a.b": "x"}', text="page.body.en", id="a.b"
    )
    assert (documents[0].text, documents[0].id) == ("hello", "x")
    assert documents[0].metadata == {}


def test_what_a_dotted_name_takes_is_no_metadata_beside_what_it_leaves(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    row = '{"doc": {"text": "a", "year": 2019, "in": {"id": 1, "x": null}}, "text": "b", "in": {"id": 2}}'
    documents, _ = read_file("a.jsonl", row, text="doc.text", id="doc.in.id")
    assert (documents[0].text, documents[0].id) == ("a", "1")
    assert documents[0].metadata == {
        "doc": {"year": 2019, "in": {"x": None}},
        "text": "b",
        "in": {"id": 2},
    }


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ('{\n"text": "a"\n}', r"\."),
        ('{"data": [\n{"text": "a"}\n]}', r"\."),
        ('{"data":\n\n{"text": "a"}\n}', r"\."),
        ('{"data": [{"text": "a"}\n, {"text": "b"}\n]}', r"\."),
        ('{"text": "a",\n"year": 2019}', r"\."),
    ],
)
def test_a_json_file_of_one_big_value_is_refused_with_the_way_to_convert_it(
    write: Callable[[str, str | bytes], str], content: str, part: str
) -> None:
    with pytest.raises(BadInputError, match=rf"jq -c '{part}' a\.json > a\.jsonl"):
        list(read([write("a.json", content)]))


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["a.json", "a.JSON", "a.json.gz"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_objects_of_a_json_list_are_rows(
    write: Callable[[str, str | bytes], str], name: str, indent: int | None, encoding: str
) -> None:
    rows = [{"id": f"d{at}", "text": f'{at}, "é" [b}} \\', "tags": [["x", {"y": 1}]]} for at in range(40)]
    content = json.dumps(rows, indent=indent, ensure_ascii=False).encode(encoding)
    path = write(name, content)
    documents = list(read([path], ReadOptions(max_text_bytes=200)))  # of a row, not of the list
    assert [(one.id, one.text, one.metadata, one.line) for one in documents if isinstance(one, Document)] == [
        (row["id"], row["text"], {"tags": row["tags"]}, at) for at, row in enumerate(rows, 1)
    ]


@given(
    st.lists(
        st.recursive(
            st.none() | st.integers() | st.text('ab,[]{}"\\\n\r\t é😀', max_size=8),
            lambda inside: (
                st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside, max_size=3)
            ),
        ),
        max_size=5,
    ),
    st.sampled_from([None, 1]),
    st.integers(1, 40),
)
def test_a_list_comes_as_a_line_a_value_wherever_its_bytes_are_cut(
    values: list[object], indent: int | None, cut: int
) -> None:
    content = b"\n" * (cut % 7) + json.dumps(values, indent=indent).encode() + b"\n"
    pieces = [content[at : at + cut] for at in range(0, len(content), cut)]

    class Cut(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any, /) -> int:
            piece = pieces.pop(0) if pieces else b""
            buffer[: len(piece)] = piece
            return len(piece)

    stream, is_list = listed_values(io.BufferedReader(Cut(), 64), (b"[",))
    lines = stream.read().splitlines()
    assert is_list
    assert [json.loads(line) for line in lines if line.strip()] == values


def test_what_is_wrong_in_a_list_costs_that_value_and_a_list_without_an_end_is_told(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    documents, faults = read_file("a.json", f'[{GOOD}, 5, {GOOD} {GOOD}, {{"text": NaN}},\n{GOOD}]\nand more')
    assert len(documents) == 2
    assert faults == [
        Naming("a.json:2", "not a JSON object", "5"),
        Naming("a.json:3", "more after the value"),
        Naming("a.json:4", "NaN"),
        Naming("a.json:6", "not JSON"),
    ]
    documents, faults = read_file("b.json", f'[{GOOD},\n{GOOD},\n{{"text": "cut')
    assert len(documents) == 2
    assert faults == [Naming("b.json:3", "no end", "not read")]
    assert read_file("c.json", "[]") == ([], [])
    assert read_file("d.json", "[[1, 2], [3]]")[1] == [
        Naming("d.json:1", "[1, 2]"),
        Naming("d.json:2", "[3]"),
    ]
    for text, said in (
        ("日本", Naming("e.json:1", "cp932", "UTF-8", "not read")),
        ("ソ表", Naming("no end", "UTF-8")),
    ):
        content = json.dumps([{"text": text}, {"text": "good"}], ensure_ascii=False).encode("cp932")
        assert read_file("e.json", content, encoding="cp932") == ([], [said])
    documents, faults = read_file("g.json", f'[{GOOD}, {{"text": "a\\\nb"}}, {GOOD}]')
    assert [one.line for one in documents] == [1, 3]
    assert faults == [Naming("g.json:2", "escape")]
    white = read_file("f.json", f"  \n\n\n\n {GOOD}\n")
    assert [one.line for one in white[0]] == [5]


@pytest.mark.parametrize(
    "content", ['[{"text": "a"}]', '[\n{"text": "a"}\n]', '{\n"text": "a"\n}\n{\n"text": "b"\n}']
)
def test_json_lines_that_go_over_several_are_refused_and_never_written_over(
    write: Callable[[str, str | bytes], str], content: str
) -> None:
    with pytest.raises(BadInputError, match=r"jq -c '.*' a\.jsonl > a-rows\.jsonl"):
        list(read([write("a.jsonl", content)]))
    with pytest.raises(BadInputError, match=r"<\(gzip -dc a\.ndjson\.gz\) > a\.jsonl"):
        list(read([write("a.ndjson.gz", content)]))


def test_a_first_line_that_is_a_list_costs_json_lines_that_line_alone(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    documents, faults = read_file("a.jsonl", f"[1, 2]\n{GOOD}\n")
    assert (len(documents), faults) == (1, [Naming("a.jsonl:1", "not a JSON object")])


def test_byte_order_marks_of_files_that_were_joined_are_passed_over(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    documents, faults = read_file("a.jsonl", f"\ufeff{GOOD}\n\ufeff{GOOD}\n")
    assert (len(documents), faults) == (2, [])
    documents, faults = read_file("a.txt", "\ufeffone\n\ufefftwo\n")
    assert ([document.text for document in documents], faults) == (["one", "two"], [])


@pytest.mark.parametrize(
    "bad",
    [
        '{"text": nothing}',
        '{"text": "bad"',
        '{"text": "bad",',
        '{"tags": [{"text": "bad"}',
        '{"tags": [1, 2]',
        '{"text": "ba',
        "{",
    ],
)
@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_a_json_file_whose_first_row_is_bad_or_cut_off_loses_that_row_alone(
    read_file: Callable[..., tuple[list[Document], list[str]]], bad: str, name: str
) -> None:
    documents, faults = read_file(name, f"\n{bad}\n\n{GOOD}\n{GOOD}\n")
    assert (len(documents), faults) == (2, [Naming(f"{name}:2", "not JSON")])
    assert read_file(name, bad) == ([], [Naming(f"{name}:1", "not JSON")])


def test_of_a_name_that_stands_twice_in_an_object_the_last_value_counts(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    (document,), faults = read_file("a.jsonl", '{"text": "a", "year": 1, "text": "b", "year": 2}\n')
    assert (document.text, document.metadata, faults) == ("b", {"year": 2}, [])


def test_a_json_file_of_lines_is_read(read_file: Callable[..., tuple[list[Document], list[str]]]) -> None:
    documents, faults = read_file("a.json", f"{GOOD}\n{GOOD}\n")
    assert (len(documents), faults) == (2, [])


def test_a_file_without_any_good_row_gives_its_faults_and_an_empty_one_nothing(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    assert read_file("a.jsonl", "bad\n") == ([], [Naming("a.jsonl:1", "not JSON", "column 1")])
    assert read_file("b.jsonl", "\n\n") == ([], [])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
row_values = st.dictionaries(
    st.sampled_from(["text", "id", "title", "metadata", "x"]) | st.text(), json_values
)


@pytest.mark.long
@given(st.lists(row_values.map(json.dumps) | json_values.map(json.dumps) | st.text(max_size=20), max_size=8))
def test_any_lines_are_read_without_an_exception_and_each_is_counted(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.jsonl"
    lines = [line.replace("\n", " ").replace("\r", " ").encode("utf-8", "surrogatepass") for line in lines]
    path.write_bytes(b'{"text": "first"}\n' + b"\n".join(lines))
    items = list(read([path]))
    seen = [item.line for item in items]
    blank = [number for number, line in enumerate(lines, 2) if not _readable(line).strip()]
    assert seen == [number for number in range(1, len(lines) + 2) if number not in blank]
    for item in items:
        if isinstance(item, Document):
            json.dumps([item.text, item.id, item.title, dict(item.metadata)], allow_nan=False).encode()
            assert item.text.strip()


def _readable(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return "a fault"
