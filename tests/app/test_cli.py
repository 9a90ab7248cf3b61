"""The command line: what goes where, and how it ends."""

import csv
import getpass
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.app.cli import main
from nearsay.app.cli.progress import reporting_to
from nearsay.data.report import Done
from nearsay.indexer import Collection, Library
from nearsay.indexer.writing.rollout import Promotion

Run = Callable[..., Result]


def lines(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_results_go_to_standard_output_and_remarks_to_standard_error(pets: Run) -> None:
    result = pets("search", "pets", "a cow ate")
    assert result.exit_code == 0
    assert result.stdout.startswith("  1. 1.000  cat\n     a cat sat\n")
    assert "there are only 3 passages" in result.stderr
    assert "there are only 3 passages" not in result.stdout


def test_json_is_one_object_a_line_with_the_whole_hit(pets: Run) -> None:
    hits = lines(pets("search", "pets", "a cow ate", "-n", "2", "--json"))
    assert [hit["id"] for hit in hits] == ["cat", "dog"]
    assert hits[0]["score"] == pytest.approx(1.0)
    assert hits[0]["metadata"] == {"legs": 4}
    assert hits[0]["lineage"] == {
        "encoder": "words",
        "fingerprint": WordsEncoder().fingerprint,
        "generation": 1,
        "plan": "exact",
        "made_by": ["made for tests"],
        "device": "cpu",
    }


def test_a_filter_keeps_only_what_it_lets_through(pets: Run) -> None:
    assert [hit["id"] for hit in lines(pets("search", "pets", "a cow", "--where", "legs < 4", "--json"))] == [
        "bird"
    ]


def test_no_hits_is_not_a_failure(pets: Run) -> None:
    result = pets("search", "pets", "a cow", "--where", "legs > 100")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == [Naming("nothing found", "filter")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("search", "nope", "x"), "there is no collection 'nope' in library; there are: pets."),
        (("search", "pets", "x", "--where", "legs >> 1"), "column 7"),
        (("search", "pets", "x", "--where", "kind = cat"), "near 'cat'"),
        (("search", "pets", "   "), "the query is empty"),
        (("search", "pets", "x", "--library", "elsewhere"), "there is no library in elsewhere"),
        (("similar", "pets", "--id", "cow"), "collection 'pets' has no document 'cow'"),
        (("documents", "add", "pets", "nowhere.txt"), "nowhere.txt"),
        (("documents", "add", "pets/../x", "pets.jsonl"), "not a name"),
        (
            ("documents", "add", "a", "pets.jsonl", "--library", "new", "--database", "mysql://x"),
            "not 'mysql'",
        ),
        (("index", "promote", "pets"), "has no generation that is ready"),
        (("index", "rollback", "pets"), "no retired generation"),
        (("documents", "remove", "pets", "--id", "cow"), "collection 'pets' has no document 'cow'"),
        (("documents", "show", "pets", "cow"), "collection 'pets' has no document 'cow'"),
        (("search", "pets", "x", "--database", "postgresql://x"), "is the SQLite file inside it"),
    ],
)
def test_a_known_error_is_one_line_and_exit_status_one(
    pets: Run, arguments: tuple[str, ...], said: str
) -> None:
    result = pets(*arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("search", "nosuch", "x"), "documents add nosuch FILE"),
        (("collections", "show", "pets", "--plot", "x.png"), "index tune pets"),
    ],
)
def test_a_remedy_names_the_library_that_the_command_line_named(
    pets: Run, tmp_path: Path, arguments: tuple[str, ...], command: str
) -> None:
    (tmp_path / "my own").symlink_to(tmp_path / "library")
    assert pets(*arguments).stderr.endswith(f": nearsay {command}\n")
    elsewhere = pets(*arguments, "--library", str(tmp_path / "my own"))
    assert elsewhere.stderr.endswith(f": nearsay {command} --library '{tmp_path}/my own'\n")


def test_a_note_names_the_library_that_the_command_line_named(pets: Run) -> None:
    place = ("--library", "library")
    assert pets("documents", "remove", "pets", "--id", "cat", *place).exit_code == 0
    assert (
        "nearsay index compact pets --library library\n" in pets("collections", "show", "pets", *place).stdout
    )
    assert "nearsay index compact pets\n" in pets("collections", "show", "pets").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "pets"),
        ("documents", "remove", "pets"),
        ("search", "pets", "x", "-n", "many"),
        ("search", "pets", "x", "-n", "0"),
        ("frobnicate",),
    ],
)
def test_wrong_usage_is_exit_status_two(pets: Run, arguments: tuple[str, ...]) -> None:
    assert pets(*arguments).exit_code == 2


def test_a_file_named_where_an_option_is_expected_is_answered_with_the_options(pets: Run) -> None:
    result = pets("documents", "remove", "pets", "old notes.txt")
    assert result.exit_code == 2
    assert "--id 'old notes.txt'" in result.stderr
    assert "--where \"source contains 'old notes.txt'\"" in result.stderr


def test_being_stopped_says_that_nothing_is_lost(pets: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Collection, "add", stopped)
    result = pets("documents", "add", "pets", "pets.jsonl")
    assert result.exit_code == 130
    assert "same command" in result.stderr


def test_a_question_that_is_stopped_ends_as_any_command_that_is(
    pets: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("nearsay.app.cli.options._at_a_terminal", lambda: True)
    for answered, status in ((stopped, 130), (lambda *_: "n", 1)):
        monkeypatch.setattr("click.termui.visible_prompt_func", answered)
        with pytest.raises(SystemExit) as ended:
            main.main(["collections", "remove", "pets"], prog_name="nearsay")
        assert ended.value.code == status
    assert pets("collections", "list", "--format", "csv").stdout.splitlines()[1].startswith("pets,")


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "pets", "cat", "--rerank", "x" * 5000),
        ("encoders", "show", "x" * 5000),
        ("judgements", "import", "pets", "x" * 5000),
        ("train", "vocabulary", "pets.jsonl", "--out", "x" * 5000),
        ("doctor", "--library", "x" * 5000),
    ],
)
def test_a_name_that_no_disk_takes_is_told(pets: Run, arguments: tuple[str, ...]) -> None:
    result = pets(*arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert result.stderr == Naming("Error", "File name too long")


def test_texts_may_be_as_long_as_any(run: Run) -> None:
    added = run("documents", "add", "notes", "-", "--max-text-bytes", str(2**63 - 1), stdin="a cat sat\n")
    assert added.exit_code == 0
    assert "1 added" in added.stderr


def test_the_doctor_tells_of_a_library_whose_name_is_no_text(pets: Run) -> None:
    assert "WRONG library" in pets("doctor", "--library", "caf\udce9").stdout


def test_a_query_that_the_locale_cannot_read_names_the_locale(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library") as library:
        library.collection("pets").add_rows([{"id": "cat", "text": "a cat sat"}])
    place = ("--library", str(tmp_path / "library"))
    command = [sys.executable, "-m", "nearsay.app.cli", "search", "pets", "café".encode(), *place]
    of_ascii = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ended = subprocess.run(command, capture_output=True, check=False, env=os.environ | of_ascii)
    assert (ended.returncode, b"LC_ALL=C.UTF-8" in ended.stderr) == (1, True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("arguments", [("collections", "list"), ("documents", "export", "pets")])
def test_a_place_without_room_for_what_is_printed_is_told(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with Library.open(tmp_path / "library") as library:
        library.collection("pets").add_rows([{"id": "cat", "text": "a cat sat"}])
    command = [sys.executable, "-m", "nearsay.app.cli", *arguments, "--library", str(tmp_path / "library")]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [Naming("Error", "No space left")]


@pytest.mark.long
def test_a_reader_that_has_read_enough_ends_a_command_without_a_word(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library") as library:
        library.collection("pets").add_rows([{"id": str(n), "text": "a cat sat " * 90} for n in range(200)])
    command = [sys.executable, "-m", "nearsay.app.cli", "documents", "export", "pets"]
    with subprocess.Popen(
        [*command, "--library", str(tmp_path / "library")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_adding_says_what_was_guessed_and_what_was_skipped(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mixed.jsonl").write_text('{"id": 1, "body": "a cat"}\nnot json\n{"id": 2, "body": ""}\n')
    result = run("documents", "add", "mixed", "mixed.jsonl")
    assert result.exit_code == 0
    assert "text = 'body' (guessed)" in result.stderr
    assert "skipped mixed.jsonl:2: " in result.stderr
    assert "skipped mixed.jsonl:3: " in result.stderr
    assert result.stderr == Naming("mixed", "1 added", "2 skipped", "1 passage")


def test_a_bad_file_hides_no_other_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "bad.csv").write_text("id,text\n1,a cat\n" + "x\n" * 101)
    (folder / "bad.docx").write_bytes(b"no document")
    (folder / "bad.pdf").write_bytes(b"no document")
    result = run("documents", "add", "mixed", "mixed")
    assert result.exit_code == 0
    assert result.stderr.count("skipped mixed/bad.csv:") == 3
    assert "… 98 more in mixed/bad.csv" in result.stderr
    assert "skipped mixed/bad.docx: " in result.stderr
    assert "skipped mixed/bad.pdf: " in result.stderr
    assert "103 rows" in result.stderr


def test_strict_writes_nothing_when_a_row_cannot_be_used(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mixed.jsonl").write_text('{"id": 1, "body": "a cat"}\nnot json\n')
    result = run("documents", "add", "mixed", "mixed.jsonl", "--strict")
    assert result.exit_code == 1
    assert "mixed.jsonl:2" in result.stderr
    assert not (tmp_path / "library").exists()


def test_standard_input_is_read_line_by_line(run: Run) -> None:
    assert run("documents", "add", "tickets", "-", stdin="the shop is shut\na cat sat\n").exit_code == 0
    assert [hit["text"] for hit in lines(run("search", "tickets", "a cow ate", "-n", "1", "--json"))] == [
        "a cat sat"
    ]


def test_a_second_add_reports_that_nothing_changed(pets: Run) -> None:
    assert pets("documents", "add", "pets", "pets.jsonl").stderr == Naming(
        "pets", "3 unchanged", "0 passages"
    )


def test_what_a_compaction_would_free_is_said_without_freeing_it(pets: Run) -> None:
    pets("documents", "remove", "pets", "--id", "cat")
    for also, said in (([], ()), (["--drop-retired"], ("0 retired",))):
        tried = pets("index", "compact", "pets", "--dry-run", *also)
        assert (tried.exit_code, tried.stdout) == (0, "")
        assert tried.stderr.splitlines() == [Naming("would remove", *said, "1 removed passage", "'pets'")]
    assert "1 removed passage " in pets("collections", "show", "pets").stdout
    compacted = pets("index", "compact", "pets", "--yes")  # nothing is lost, so that nobody is asked either
    assert (compacted.exit_code, compacted.stderr) == (0, Naming("1 removed vector"))


def test_names_of_fields_may_have_blanks_around_them(pets: Run) -> None:
    pets("documents", "export", "pets", "--out", "pets.jsonl")
    assert pets("documents", "add", "more", "pets.jsonl", "--metadata", "metadata.legs , id,").exit_code == 0
    assert set(lines(pets("documents", "list", "more", "--json"))[0]["metadata"]) == {"metadata.legs", "id"}


def test_removed_documents_never_come_back(pets: Run) -> None:
    assert "removed 1 document" in pets("documents", "remove", "pets", "--id", "cat").stderr
    assert "removed 1 document" in pets("documents", "remove", "pets", "--where", "legs = 2", "--yes").stderr
    assert [hit["id"] for hit in lines(pets("search", "pets", "a cow ate", "--json"))] == ["dog"]


def test_a_text_without_spaces_is_shown_by_its_first_characters(run: Run) -> None:
    assert run("documents", "add", "notes", "-", stdin="猫" * 900 + "\n").exit_code == 0
    head, *below = run("search", "notes", "猫").stdout.splitlines()
    assert head.count("猫") == 78
    assert sum(line.count("猫") for line in below) > 78


def test_a_row_without_title_and_id_is_called_by_its_beginning(run: Run) -> None:
    long = "a cat sat on the mat " * 10
    assert run("documents", "add", "notes", "-", stdin=f"a dog ran\n{long}\n").exit_code == 0
    found = run("search", "notes", "a dog ran", "-n", "2").stdout
    assert found.splitlines()[0].endswith("  a dog ran") or "  a dog ran  (" in found.splitlines()[0]
    assert found.count("a dog ran") == 1  # what the headline says in full is not said again
    assert "  a cat sat on the mat a cat sat" in found
    assert sum(line.startswith("     #") for line in found.splitlines()) == 2  # the ids stand below


def test_what_a_filter_removes_is_asked_for_first(pets: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = ("documents", "remove", "pets", "--where", "legs > 1")

    def there() -> list[object]:
        return [row["id"] for row in lines(pets("documents", "list", "pets", "--json"))]

    dry = pets(*everything, "--dry-run")
    assert dry.exit_code == 0
    assert dry.stderr == Naming("would remove", "3 documents", "(cat, dog, bird)", "'legs > 1'", "'pets'")
    dry = pets(*everything[:-1], "legs = 2", "--dry-run")
    assert dry.stderr == Naming("would remove", "1 document", "(bird)", "'legs = 2'", "'pets'")
    refused = pets(*everything, stdin="y\n")  # nobody is at a terminal
    assert refused.exit_code == 1
    assert "--yes" in refused.stderr
    monkeypatch.setattr("nearsay.app.cli.options._at_a_terminal", lambda: True)
    assert pets(*everything, stdin="n\n").exit_code == 1
    assert there() == ["cat", "dog", "bird"]
    assert pets(*everything[:-1], "legs = 2", stdin="y\n").exit_code == 0
    assert there() == ["cat", "dog"]
    assert pets("collections", "remove", "pets", "--dry-run").exit_code == 0
    assert pets(*everything, "--yes").exit_code == 0
    assert there() == []


def test_removing_a_whole_collection_asks_first(pets: Run) -> None:
    assert pets("collections", "remove", "pets", stdin="n\n").exit_code == 1
    assert [row["name"] for row in lines(pets("collections", "list", "--json"))] == ["pets"]
    assert pets("collections", "remove", "pets", "--yes").exit_code == 0
    assert lines(pets("collections", "list", "--json")) == []


def test_what_is_exported_can_be_added_again(pets: Run, tmp_path: Path) -> None:
    assert pets("documents", "export", "pets", "--out", "copy.jsonl").exit_code == 0
    assert pets("documents", "add", "copies", "copy.jsonl").exit_code == 0
    assert pets("documents", "export", "copies").stdout == (tmp_path / "copy.jsonl").read_text()
    assert pets("documents", "export", "copies", "--out", "-").stdout == (tmp_path / "copy.jsonl").read_text()


def test_control_characters_of_a_document_do_not_reach_the_terminal(run: Run) -> None:
    run("documents", "add", "evil", "-", stdin=json.dumps({"id": "x", "text": "red \x1b[31m alert"}) + "\n")
    result = run("search", "evil", "red alert")
    assert "alert" in result.stdout
    assert "\x1b" not in result.stdout


def test_show_tells_sizes_generations_and_fields(pets: Run) -> None:
    result = pets("collections", "show", "pets")
    assert "pets: 3 documents, 3 passages" in result.stdout
    assert "fields: legs" in result.stdout
    (shown,) = lines(pets("collections", "show", "pets", "--json"))
    assert shown["documents"] == 3
    assert [(row["number"], row["state"]) for row in shown["generations"]] == [(1, "live")]


def test_doctor_finds_everything_sound_and_exits_zero(pets: Run) -> None:
    result = pets("doctor", "--prove")
    assert result.exit_code == 0
    assert "WRONG" not in result.stdout
    assert result.stdout == Naming("3 of 3", "first")


def test_doctor_exits_with_one_when_a_segment_is_damaged(pets: Run, tmp_path: Path) -> None:
    (segment,) = (tmp_path / "library" / "segments").rglob("*.safetensors")
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    result = pets("doctor")
    assert result.exit_code == 1
    assert "WRONG pets, generation 1 (live): segment" in result.stdout
    assert ": nearsay index rebuild pets" in result.stdout


def test_the_library_is_named_by_the_environment_too(pets: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARSAY_LIBRARY", "nowhere")
    assert pets("search", "pets", "a cow").exit_code == 1
    monkeypatch.setenv("NEARSAY_LIBRARY", "library")
    assert pets("search", "pets", "a cow").exit_code == 0


@pytest.mark.parametrize("sign", ["\x1b[31m", "\x9b31m", "\x7f", "\x1b]0;title\x07"])
def test_no_output_carries_what_a_terminal_obeys(run: Run, tmp_path: Path, sign: str) -> None:
    row = {"id": f"i{sign}d", "title": f"t{sign}", "text": f"red {sign} alert", f"f{sign}": f"v{sign}"}
    (tmp_path / "evil.jsonl").write_text(json.dumps(row) + "\nbroken\n")
    results = [
        run("documents", "add", "evil", "evil.jsonl"),
        run("search", "evil", "red alert"),
        run("search", "evil", "red alert", "--json"),
        run("search", "evil", "red alert", "--format", "csv"),
        run("search", "evil", "red", "--where", "nothing = 1"),
        run("collections", "show", "evil"),
        run("documents", "show", "evil", f"i{sign}d"),
        run("documents", "show", "evil", f"not{sign}there"),
        run("documents", "list", "evil"),
        run("doctor"),
    ]
    obeyed = {"\x1b", "\x9b", "\x7f", "\x07"}
    assert [result.output for result in results if obeyed & set(result.output)] == []
    assert "alert" in results[1].stdout
    assert json.loads(results[2].stdout)["text"] == f"red {sign} alert"


def test_strict_makes_no_library_when_a_row_cannot_be_used(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mixed.jsonl").write_text('{"id": 1, "body": "a cat"}\nnot json\n')
    assert run("documents", "add", "mixed", "mixed.jsonl", "--strict", "--library", "fresh").exit_code == 1
    assert not (tmp_path / "fresh").exists()


def test_strict_reads_standard_input_twice(run: Run) -> None:
    assert run("documents", "add", "tickets", "-", "--strict", stdin="a cat sat\n").exit_code == 0
    assert [row["documents"] for row in lines(run("collections", "list", "--json"))] == [1]


def test_strict_refuses_a_pipe_that_it_could_read_only_once(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    result = run("documents", "add", "tickets", "pipe.txt", "--strict")
    assert result.exit_code == 1
    assert result.stderr == Naming("pipe.txt", "pipe", "once")


def test_exporting_over_a_folder_is_a_known_error(pets: Run, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    result = pets("documents", "export", "pets", "--out", "taken")
    assert result.exit_code == 1
    assert "taken cannot be written" in result.stderr


def test_listing_takes_a_number_of_one_or_more(pets: Run) -> None:
    assert pets("documents", "list", "pets", "-n", "-3").exit_code == 2


def test_doctor_looks_at_the_machine_where_there_is_no_library(run: Run, tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    result = run("doctor")
    assert result.exit_code == 0
    assert "versions: Python" in result.stdout


def test_doctor_says_that_the_library_that_was_named_is_not_there(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run("doctor", "--library", "mistyped", "--json")
    assert result.exit_code == 1
    wrong = [row for row in map(json.loads, result.stdout.splitlines()) if not row["sound"]]
    assert [(row["subject"], row["detail"]) for row in wrong] == [
        ("library", Naming("mistyped", "--library"))
    ]
    monkeypatch.setenv("NEARSAY_LIBRARY", "unmounted")
    assert run("doctor").exit_code == 1


@pytest.mark.parametrize("option", [("--workers", "8"), ("--worker-cpus", "2"), ("--worker-gpus", "1")])
def test_workers_without_a_cluster_are_refused(pets: Run, option: tuple[str, str]) -> None:
    refused = pets("documents", "add", "pets", "pets.jsonl", *option)
    assert (refused.exit_code, refused.stderr) == (2, Naming(option[0], "--cluster"))
    with reporting_to(lambda _: None):  # a job, among whose arguments a configuration file's options are
        assert pets("documents", "add", "pets", "pets.jsonl", *option).exit_code == 0


def test_a_generation_that_was_promoted_at_once_is_reported_as_live(
    pets: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearsay.indexer.library._loader", lambda *_: WordsEncoder)
    (report,) = lines(pets("index", "rebuild", "pets", "--encoder", "other", "--promote", "--json"))
    (shown,) = lines(pets("collections", "show", "pets", "--json"))
    states = {row["number"]: row["state"] for row in shown["generations"]}
    assert (report["generation"], report["state"]) == (2, states[2]) == (2, "live")


def test_a_promotion_at_once_says_what_the_gate_measured(pets: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearsay.indexer.library._loader", lambda *_: WordsEncoder)
    monkeypatch.setattr("nearsay.indexer.judgements.gate.QUERIES", 0)
    done = pets("index", "rebuild", "pets", "--encoder", "words", "--promote")
    assert [done.stderr.splitlines()[0]] == [Naming("generation 2", "live")]
    assert done.stderr.splitlines()[1:] == [Naming("encoder and the vectors of generation 1")]
    assert "promote pets" not in done.stderr


@pytest.mark.long
def test_standard_streams_may_all_be_closed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a cat sat\n")
    command = [sys.executable, "-m", "nearsay.app.cli", "documents", "add", "notes", "notes.txt"]
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command, "--device", "cpu"]
    assert subprocess.run(closed, cwd=tmp_path, check=False).returncode == 0
    with Library.open(tmp_path / "library", create=False) as library:
        assert [each.text for each in library.collection("notes").documents()] == ["a cat sat"]


def test_everything_and_some_of_it_cannot_be_removed_at_once(pets: Run) -> None:
    assert pets("collections", "remove", "pets", "--yes", "--id", "cat").exit_code == 2
    assert len(lines(pets("documents", "list", "pets", "--json"))) == 3


def test_without_a_terminal_no_password_is_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(prompt: str) -> str:
        return getpass.fallback_getpass(prompt, io.StringIO())  # as where echo cannot be switched off

    monkeypatch.setattr("nearsay.app.cli.ui.click.prompt", lambda text, **_: asked(text))
    monkeypatch.delenv("NEARSAY_UI_PASSWORD", raising=False)
    result = run("ui", "--password")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        Naming("Error", "no terminal", "--password-file", "NEARSAY_UI_PASSWORD")
    ]


@pytest.mark.parametrize("group", [(), ("explore",), ("evaluate",)])
def test_the_help_of_a_group_tells_each_command_in_its_whole_first_sentence(
    run: Run, group: tuple[str, ...]
) -> None:
    said = " ".join(run(*group, "--help").stdout.split())
    shown = main.commands[group[0]] if group else main
    assert isinstance(shown, click.Group)
    for command in shown.commands.values():
        assert command.get_short_help_str(1_000) in said
    assert "..." not in said.partition("Commands:")[2]


def test_rows_are_printed_as_csv_or_json_lines(pets: Run) -> None:
    table = list(csv.DictReader(io.StringIO(pets("documents", "list", "pets", "--format", "csv").stdout)))
    assert [(row["id"], json.loads(row["metadata"])["legs"]) for row in table] == [
        ("cat", 4),
        ("dog", 4),
        ("bird", 2),
    ]
    found = pets("search", "pets", "a cow ate", "--format", "csv", "-n", "2").stdout
    assert [row["rank"] for row in csv.DictReader(io.StringIO(found))] == ["1", "2"]
    of_legs = pets("documents", "facets", "pets", "legs", "--format", "csv")
    assert of_legs.stdout == "value,documents\n4,2\n2,1\n"
    assert lines(pets("documents", "facets", "pets", "legs", "--format", "jsonl")) == [
        {"value": 4, "documents": 2},
        {"value": 2, "documents": 1},
    ]
    whole = lines(pets("documents", "facets", "pets", "legs", "--format", "csv", "--json"))
    assert whole[0]["field"] == "legs"  # --json goes before --format
    pairs = csv.DictReader(io.StringIO(pets("explore", "pairs", "pets", "--format", "csv").stdout))
    assert {"cosine", "first_id", "second_id"} <= set(pairs.fieldnames or ())
    assert pets("collections", "list", "--format", "csv").stdout.splitlines() == [
        "name,documents,passages,encoder,dtype",
        "pets,3,3,words,float32",
    ]


def test_a_byte_order_mark_is_no_part_of_a_password(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearsay.app.ui.launch.launch", lambda _: None)
    (tmp_path / "short").write_bytes("\ufeff1234567\n".encode())  # eight characters with the mark
    refused = run("ui", "--password-file", "short")
    assert (refused.exit_code, refused.stderr) == (1, Naming("7 characters", 8))


def test_what_was_done_is_printed_as_json_for_a_program(pets: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def done(*command: str) -> Done:
        (row,) = lines(pets(*command, "--json"))
        return Done.from_json(row)

    two_legs = ("documents", "remove", "pets", "--where", "legs = 2")
    assert done(*two_legs, "--dry-run") == Done("would remove", "documents", 1)
    both = ("--id", "cat", "--id", "bird")
    assert done(*two_legs[:3], *both, "--dry-run") == Done("would remove", "documents", 2)
    assert done(*two_legs, *both, "--dry-run") == Done("would remove", "documents", 2)
    assert done(*two_legs, "--yes") == Done("removed", "documents", 1)
    assert done("documents", "export", "pets", "--out", "c.jsonl") == Done(
        "written", "documents", 2, "c.jsonl"
    )
    # Without a file the documents are the JSON lines.
    assert [row["id"] for row in lines(pets("documents", "export", "pets", "--json"))] == ["cat", "dog"]
    assert done("index", "compact", "pets", "--dry-run") == Done("would remove", "removed passages", 1)
    tried = ("index", "compact", "pets", "--drop-retired", "--dry-run")
    assert done(*tried) == Done("would remove", "retired generations", 0)
    assert done("collections", "remove", "pets", "--dry-run") == Done("would remove", "collections", 1)
    assert done("collections", "remove", "pets", "--yes") == Done("removed", "collections", 1)


def test_which_generation_went_live_is_printed_as_json(pets: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearsay.indexer.library._loader", lambda *_: WordsEncoder)
    pets("index", "rebuild", "pets", "--encoder", "other")
    (promoted,) = lines(pets("index", "promote", "pets", "--json"))
    (back,) = lines(pets("index", "rollback", "pets", "--json"))
    assert (Promotion.from_json(promoted), Promotion.from_json(back)) == (
        Promotion("pets", 2),
        Promotion("pets", 1),
    )


def test_metadata_takes_no_place_of_a_document_that_is_shown(run: Run, tmp_path: Path) -> None:
    row = {"key": "k1", "id": "other", "text": "a cat", "source": "web", "passages": 7}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    assert run("documents", "add", "notes", "rows.jsonl", "--id", "key", "--text", "text").exit_code == 0
    shown = run("documents", "show", "notes", "k1").stdout
    rows = [line.split() for line in shown.splitlines()]
    assert rows[1] == ["id", "k1"]
    for fact in (["id", "other"], ["source", "web"], ["passages", "7"], ["passages", "1"]):
        assert fact in rows
