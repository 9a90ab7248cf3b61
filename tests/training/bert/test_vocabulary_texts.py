"""The texts that vocabularies are trained on."""

import json
from pathlib import Path

import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.data.read_options import ReadOptions
from nearsay.training.bert.vocabulary_texts import Texts


def test_files_folders_and_patterns_are_read_one_after_another(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("one\n\ntwo\n")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "c.jsonl").write_text(json.dumps({"text": "three", "title": "no text"}) + "\n")
    texts = Texts([tmp_path / "b.txt", tmp_path / "notes", str(tmp_path / "*.txt")])
    assert list(texts) == ["one", "two", "three"]
    assert texts.count == 3
    assert texts.names == [str(tmp_path / "b.txt"), str(tmp_path / "notes" / "c.jsonl")]


def test_rows_that_cannot_be_used_are_counted_and_the_first_ten_named(tmp_path: Path) -> None:
    rows = ['{"text": "good"}', *["{bad"] * 12, '{"text": "fine"}']
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    texts = Texts([tmp_path / "rows.jsonl"])
    assert list(texts) == ["good", "fine"]
    assert (texts.fault_count, len(texts.faults)) == (12, 10)
    assert f"skipped {tmp_path}/rows.jsonl:2: not JSON" in texts.notes[1]
    assert texts.notes[-1] == Naming("12 rows")


def test_no_row_that_can_be_used_is_an_error_that_names_the_first(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"text": ""}\n{"text": 7}\n')
    with pytest.raises(BadInputError, match=r"none of the 2 rows .*rows\.jsonl:1: "):
        list(Texts([tmp_path / "rows.jsonl"], ReadOptions(text="text")))


def test_a_listener_hears_how_many_texts_there_probably_are(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("a line of text\n" * 100_000)
    heard: list[tuple[int, int | None]] = []
    list(Texts([tmp_path / "lines.txt"], listener=lambda done, total: heard.append((done, total))))
    assert [done for done, _ in heard[:2]] == [256, 512]
    done, total = heard[len(heard) // 2]
    assert total == pytest.approx(100_000, rel=0.2)
    assert done <= total
