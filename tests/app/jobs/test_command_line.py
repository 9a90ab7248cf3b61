"""Which commands can be jobs, and what is added to them."""

from pathlib import Path

import pytest

from nearsay.app.jobs.command_line import background_arguments, checked, shell_line
from nearsay.app.jobs.job import JobKind
from nearsay.data.errors import BadInputError

HOME = Path("/home/ada/my library")


def test_a_command_says_what_it_is_about_and_what_it_makes() -> None:
    added = checked(["documents", "add", "--text", "abstract", "papers", "papers.jsonl"])
    assert (added.collection, added.product) == ("papers", None)
    assert added.arguments == ("documents", "add", "--text", "abstract", "papers", "papers.jsonl")
    trained = checked(["train", "vocabulary", "novels", "--out", "pieces"])
    assert (trained.collection, trained.product) == (None, str(Path.cwd() / "pieces"))
    assert checked(["train", "vocabulary", "novels", "--out=/somewhere/mine"]).product == "/somewhere/mine"
    assert checked(["explore", "map", "papers"]).product == str(Path.cwd() / "map.html")
    assert checked(["explore", "map", "papers", "--no-file"]).product is None


def test_device_and_precision_are_added_where_they_are_known_taken_and_not_said() -> None:
    def given(*arguments: str) -> tuple[str, ...]:
        return checked(arguments, device="cuda", precision="float32").arguments

    plain = ("--device", "cuda", "--precision", "float32")
    assert given("index", "optimize", "papers") == ("index", "optimize", *plain, "papers")
    said = ("index", "optimize", "papers", "--device", "cpu")
    assert given(*said) == ("index", "optimize", "--precision", "float32", *said[2:])
    assert given("index", "compact", "papers") == ("index", "compact", "papers")
    assert given("train", "vocabulary", "a", "--out", "b") == ("train", "vocabulary", "a", "--out", "b")
    assert checked(["index", "optimize", "papers"], device=None, precision="auto").arguments == (
        "index",
        "optimize",
        "papers",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "choose a command: .*index"),
        (["index"], "nearsay index: choose a command: compact"),
        (["--json", "index"], "choose a command"),
        (["frobnicate"], "nearsay: No such command 'frobnicate'"),
        (["documents", "add", "papers"], "nearsay documents add: Missing argument"),
        (["documents", "add", "papers", "x", "--frob"], r"No such option.*--frob"),
        (["index", "tune", "papers", "--queries", "no such file"], "'no such file' does not exist"),
        (["documents", "add", "papers", "-"], "a job has no standard input. Write it to a file"),
        (["documents", "add", "papers", "x", "--library", "y"], "Omit --library"),
        (
            ["documents", "add", "papers", "x", "--database=postgresql://ada:secret@x/y"],
            "Omit --database",
        ),
        (["documents", "add", "--help"], "Omit --help and --version"),
        (["index", "frobnicate"], "nearsay index: No such command 'frobnicate'"),
        (["jobs", "list"], "'jobs' cannot run as a job"),
        (["ui"], "'ui' cannot run as a job"),
        (["documents", "add", "papers", "x\0y"], "NUL"),
        (["documents", "add", "papers", "caf\udce9.txt"], "is not valid Unicode"),
    ],
)
def test_what_cannot_be_a_job_is_told_before_it_is_one(arguments: list[str], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        checked(arguments)


@pytest.mark.parametrize("more", [[], ["--frob"], ["too", "many"]])
def test_a_password_in_a_refused_command_is_not_told(more: list[str]) -> None:
    with pytest.raises(BadInputError) as raised:
        checked(["collections", "list", "--database", "postgresql://ada:secret@x/y", *more])
    assert "secret" not in str(raised.value)


def test_the_library_is_known_from_the_environment_without_being_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NEARSAY_LIBRARY", "elsewhere")
    monkeypatch.setenv("NEARSAY_DATABASE", "postgresql://x/y")
    assert checked(["collections", "list"]).arguments == ("collections", "list")


def test_in_the_background_a_command_gets_its_library_and_prints_json_where_it_can() -> None:
    place = ["--library", str(HOME)]
    assert background_arguments(["collections", "list"], HOME) == ["collections", "list", *place, "--json"]
    assert background_arguments(["collections", "list", "--json"], HOME) == [
        "collections",
        "list",
        *place,
        "--json",
    ]
    assert background_arguments(["explore", "atlas", "x"], HOME) == ["explore", "atlas", *place, "x"]
    assert background_arguments(["train", "vocabulary", "a", "--out", "b"], HOME) == [
        *("train", "vocabulary", "--json"),
        *("a", "--out", "b"),
    ]


def test_the_line_for_a_terminal_can_be_pasted() -> None:
    line = shell_line(["documents", "remove", "papers", "--where", "year < 1990"], HOME)
    assert line == f"nearsay documents remove --library '{HOME}' papers --where 'year < 1990'"
    assert shell_line(["of another", "version"], HOME) == "nearsay 'of another' version"


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ("documents add papers x", JobKind.ADD),
        ("explore clusters papers", JobKind.CLUSTER),
        ("explore pairs papers", JobKind.EXPLORE),
        ("train sentence x", JobKind.SENTENCE),
        ("train average x", JobKind.TRAIN),
        ("evaluate sts x", JobKind.EVALUATE),
        ("doctor", JobKind.DOCTOR),
        ("index improve papers", JobKind.IMPROVE),
        ("search papers x", JobKind.OTHER),
        ("", JobKind.OTHER),
    ],
)
def test_the_kind_of_a_command_is_known(arguments: str, kind: JobKind) -> None:
    assert JobKind.of(arguments.split()) is kind
