"""Every command's options: where they stand and what their help says."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from naming import Naming

from nearsay.app.cli import main

WITHOUT_A_DEVICE = {
    *("cluster down", "cluster release", "cluster serve", "cluster status", "cluster up"),
    *("collections list", "collections remove", "collections show"),
    *("documents export", "documents facets", "documents fields", "documents list"),
    *("documents remove", "documents show"),
    *(
        "encoders list",
        "encoders push",
        "encoders show",
        "evaluate tokenizer",
        "explore rename",
        "explore time",
        "index compact",
    ),
    *("jobs cancel", "jobs list", "jobs remove", "jobs resume", "jobs show", "jobs start"),
    *("judgements export", "judgements list", "judgements log", "judgements remove"),
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
    else:
        assert "--device" in given


def test_commands_without_a_device_are_commands() -> None:
    assert COMMANDS.keys() >= WITHOUT_A_DEVICE


# Options whose object depends on the command: what --out is written to, which query, whose id.
OF_THE_COMMAND = {
    *(
        "--collection",
        "--dev",
        "--dtype",
        "--encoder",
        "--id",
        "--label",
        "--margin",
        "--method",
        "--near-duplicates",
        "--out",
        "--pair",
    ),
    *("--queries", "--query", "--relevant", "--sample", "--sampling", "--size", "--split", "--title"),
}
NO_HELP = re.compile(r"\[(default|env)|if left out|if omitted|at first|may be (repeated|given)|told|anew")


def option_helps() -> Iterator[tuple[str, click.Option]]:
    """Every option with the command that has it."""
    for name, command in COMMANDS.items():
        for one in command.params:
            if isinstance(one, click.Option) and not one.hidden:
                yield name, one


def test_every_help_is_a_sentence_and_leaves_the_default_to_click() -> None:
    wrong = []
    for name, option in option_helps():
        said = option.help or ""
        if not (said[:1].isupper() or said.startswith(".")) or not said.endswith(".") or NO_HELP.search(said):
            wrong.append(f"{name} {option.opts[-1]}: {said}")
        if option.multiple and not said.endswith("Can be repeated."):
            wrong.append(f"{name} {option.opts[-1]} does not say that it can be repeated: {said}")
    assert not wrong, "\n".join(wrong)


def test_an_option_means_the_same_in_every_command() -> None:
    said = defaultdict(set)
    for _, option in option_helps():
        said[option.opts[-1]].add((option.help or "").removesuffix(" Can be repeated."))
    several = {name: helps for name, helps in said.items() if len(helps) > 1}
    assert not several.keys() - OF_THE_COMMAND, several
    assert several.keys() == OF_THE_COMMAND, "an option that is worded once needs no exception"


def test_every_command_says_in_a_sentence_what_it_does() -> None:
    for name, command in COMMANDS.items():
        summary = (command.help or "").split("\n\n")[0]
        assert summary[:1].isupper(), name
        assert summary.endswith("."), name
        assert not re.search(r"\banew\b|\btold\b|go on with|goes on", command.help or ""), name


# A tour for people, and two that serve a page until Ctrl-C.
WITHOUT_JSON = {"demo", "explore atlas", "ui"}


def test_every_command_that_has_a_result_prints_it_as_json_too() -> None:
    assert {name for name, command in COMMANDS.items() if "--json" not in names(command)} == WITHOUT_JSON


NUMBERS = [
    (name, one)
    for name, command in COMMANDS.items()
    for one in command.params
    if isinstance(one.type, click.types.IntParamType | click.types.FloatParamType)
]


@pytest.mark.parametrize(("name", "one"), NUMBERS, ids=[f"{name} {one.name}" for name, one in NUMBERS])
def test_no_command_takes_a_number_that_passes_every_bound_or_that_nothing_holds(
    name: str, one: click.Parameter
) -> None:
    context = click.Context(COMMANDS[name])
    is_float = isinstance(one.type, click.types.FloatParamType)
    for given in ("nan", "inf", "-inf") if is_float else ("9" * 30, "-" + "9" * 30):
        with pytest.raises(click.BadParameter):
            one.process_value(context, [given] if one.multiple or one.nargs == -1 else given)


def paths(command: click.Command) -> Iterator[click.Parameter]:
    """What names a file or folder to write, or one that need not be there."""
    for one in command.params:
        if isinstance(one.type, click.Path) and not one.type.exists and not one.type.allow_dash:
            yield one


@pytest.mark.parametrize("name", [name for name in COMMANDS if [*paths(COMMANDS[name])]])
def test_no_command_makes_a_file_whose_name_is_a_dash_or_empty(name: str) -> None:
    for one in paths(COMMANDS[name]):
        for given in ("-", ""):
            with pytest.raises(click.BadParameter):
                one.process_value(click.Context(COMMANDS[name]), given)


@pytest.mark.parametrize(
    "name", [name for name, one in COMMANDS.items() if {"out", "plot"} & {each.name for each in one.params}]
)
def test_every_command_refuses_a_place_below_a_file_before_it_works(name: str) -> None:
    for one in COMMANDS[name].params:
        if one.name in {"out", "plot"}:
            for given in (Path(__file__, "sub"), Path(__file__, "sub", "vectors.npy")):
                with pytest.raises(click.BadParameter) as refused:
                    one.process_value(click.Context(COMMANDS[name]), str(given))
                assert refused.value.message == Naming(__file__, "is a file", given.name)
            # The system's to refuse, with its words.
            endless = str(Path("/", "a" * 300, "sub.png" if one.name == "plot" else "sub.csv"))
            assert one.process_value(click.Context(COMMANDS[name]), endless) == Path(endless)


@pytest.mark.parametrize("name", [name for name in COMMANDS if "--columns" in names(COMMANDS[name])])
def test_names_of_columns_have_no_space_around_them(name: str) -> None:
    (one,) = (each for each in COMMANDS[name].params if each.name == "columns")
    context = click.Context(COMMANDS[name])
    assert one.process_value(context, " a, b c ,d") == ("a", "b c", "d")
    assert one.process_value(context, None) is None
    for nothing in ("", " , "):
        with pytest.raises(click.BadParameter):
            one.process_value(context, nothing)


@pytest.mark.parametrize("option", ["--library", "--database"])
def test_an_empty_place_is_not_the_working_folder(option: str) -> None:
    with pytest.raises(click.BadParameter):
        COMMANDS["documents add"].make_context("add", [option, "", "pets", __file__])


# Of other programs: torchrun, pip, initdb, `ray start` and Embedding Atlas.
OF_OTHERS = {
    *("--nproc-per-node", "--force-reinstall", "--data-checksums"),
    *("--head", "--block", "--num-cpus", "--node-ip-address", "--include-dashboard"),
    *("--disable-usage-stats", "--no-monitor", "--include-log-monitor", "--ray-client-server-port"),
    *("--x", "--y", "--labels", "--disable-projection", "--no-auto-port"),
    "--ns-row",  # of a style sheet
}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
NAMED = re.compile(rf"(?:nearsay |`)({'|'.join(sorted(COMMANDS, key=len, reverse=True))})\\b([^.;`]*)")


def sentences() -> Iterator[tuple[str, str]]:
    """Every text of the product's modules with its place; what is filled in is {}."""
    root = Path(__file__).parent.parent.parent
    for module in (
        file for layer in ("app", "indexer", "training", "data") for file in (root / layer).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
                yield f"{module.name}:{node.lineno}", "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{module.name}:{node.lineno}", node.value


def test_messages_and_helps_name_options_that_there_are() -> None:
    known = {
        name
        for command in COMMANDS.values()
        for one in command.params
        for name in (*one.opts, *one.secondary_opts)
    }
    known |= {"--help", "--version", "--config", *OF_OTHERS}
    wrong = []
    for place, text in sentences():
        wrong += [f"{place}: {name}" for name in OPTION.findall(text) if name not in known]
        for command, rest in NAMED.findall(text):
            own = names(COMMANDS[command]) | {"--help"}
            wrong += [f"{place}: {command} {name}" for name in OPTION.findall(rest) if name not in own]
    assert not wrong, "\n".join(wrong)
