"""A command's options, as its function's parameters declare them."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import click
import pytest
from click.testing import CliRunner

from nearsay.app.cli.command import GROUP, CommandGroup, argument, command, option

SIZE = option("How many there are.", default=3, least=1)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"

    @classmethod
    def _missing_(cls, value: object) -> "Colour | None":
        return cls.BLUE if value == "azure" else None


@dataclass(frozen=True)
class Paint:
    colour: Colour = option("Its colour.", default="red")
    glossy: bool = option("Whether it shines.")


@dataclass(frozen=True)
class Walls(Paint):
    rooms: tuple[str, ...] = option("Room to paint. Can be repeated.", "--room")
    paint_again: bool | None = option("Whether it is done twice.", "--twice/--once")


@dataclass(frozen=True)
class Job:
    size: int = SIZE(5)
    walls: Walls = GROUP


@command()
def work(
    who: str,
    places: tuple[str, ...] = argument("[PLACE]…"),
    out: Path = option("Where it is written."),
    how: Literal["fast", "well"] | None = option("How it is done.", shown="as ever"),
    least: float | None = option("The least that is paid.", "-l", "--least"),
    job: Job = GROUP,
) -> None:
    """Do some work."""
    click.echo(json.dumps([who, places, out, how, least, asdict(job)], default=str))


def done(*arguments: str) -> Any:
    result = CliRunner().invoke(work, arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_what_is_not_said_is_as_declared_and_groups_are_objects() -> None:
    walls = {"colour": "red", "glossy": False, "rooms": [], "paint_again": None}
    assert done("Ann", "--out", "x") == ["Ann", [], "x", None, None, {"size": 5, "walls": walls}]


def test_types_say_what_an_option_takes() -> None:
    given = ("--how", "well", "-l", "2.5", "--size", "7", "--colour", "azure", "--glossy", "--once")
    walls = {"colour": "blue", "glossy": True, "rooms": ["hall", "bath"], "paint_again": False}
    rooms = ("--room", "hall", "--room", "bath")
    job = {"size": 7, "walls": walls}
    assert done("Ann", "here", "there", "--out", "x", *given, *rooms) == [
        *("Ann", ["here", "there"], "x", "well", 2.5, job)
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Ann",), "Missing option '--out'"),
        (("--out", "x"), "Missing argument 'WHO'"),
        (("Ann", "--out", "x", "--how", "ill"), "'ill' is not one of 'fast', 'well'"),
        (("Ann", "--out", "x", "--colour", "green"), "'green' is not one of 'red', 'blue'"),
        (("Ann", "--out", "x", "--size", "0"), "0 is not in the range x>=1"),
    ],
)
def test_what_the_types_do_not_allow_is_refused(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(work, arguments)
    assert (result.exit_code, said in result.output) == (2, True), result.output


def test_help_shows_defaults_and_what_is_required() -> None:
    said = " ".join(CliRunner().invoke(work, ["--help"]).output.split())
    for line in (
        "Usage: work [OPTIONS] WHO [PLACE]…",
        "--out PATH Where it is written. [required]",
        "--how [fast|well] How it is done. [default: (as ever)]",
        "--size INTEGER RANGE How many there are. [default: 5; x>=1]",
        "--colour [red|blue] Its colour. [default: red]",
        "--glossy Whether it shines. --room",
    ):
        assert line in said


def test_a_group_of_commands_has_what_is_declared_in_it() -> None:
    @click.group(cls=CommandGroup, commands=[work])
    def all_() -> None:
        """Do something."""

    @all_.command("rest")
    def rest_(minutes: int = option("How long.", default=1)) -> None:
        """Rest, and say for how long."""
        click.echo(minutes)

    assert sorted(all_.commands) == ["rest", "work"]
    assert CliRunner().invoke(all_, ["rest", "--minutes", "4"]).output == "4\n"
