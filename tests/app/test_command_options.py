"""Every command's options: where they stand and what their help says."""

from collections.abc import Iterator

import click
import pytest

from nearsay.app.cli import main

WITHOUT_A_DEVICE = {
    *("cluster down", "cluster release", "cluster serve", "cluster status", "cluster up"),
    *("collections list", "collections remove", "collections show"),
    *("documents export", "documents facets", "documents fields", "documents list"),
    *("documents remove", "documents show"),
    *("evaluate tokenizer", "explore rename", "explore time", "index compact"),
    *("jobs cancel", "jobs list", "jobs remove", "jobs resume", "jobs show", "jobs start"),
    *("judgements export", "judgements import", "judgements list", "judgements log", "judgements remove"),
    *("train average", "train vocabulary"),
}


def commands(group: click.Group = main, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, with its name."""
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands())


def names(command: click.Command) -> set[str]:
    """The options of a command: --json, -n."""
    return {name for one in command.params if isinstance(one, click.Option) for name in one.opts}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_device_is_asked_for_only_where_something_is_computed(name: str) -> None:
    given = names(COMMANDS[name]) & {"--device", "--precision"}
    if name in WITHOUT_A_DEVICE:
        assert not given
    elif "--precision" in given:
        assert "--device" in given


def test_commands_without_a_device_are_commands() -> None:
    assert COMMANDS.keys() >= WITHOUT_A_DEVICE
