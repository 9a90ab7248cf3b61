"""The house keeps its shape."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from nearsay.app.cli import main
from nearsay.app.ui.application import PAGES

ROOT = Path(__file__).parent.parent
LAYERS = ("data", "training", "indexer", "app")  # each may import itself and those before it
MODULES = sorted(
    path.relative_to(ROOT)
    for layer in LAYERS
    for path in (ROOT / layer).rglob("*.py")
    if ".venv" not in path.parts
)


def imported_layers(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[1] for name in names if name.startswith("nearsay.")}


def commands(group: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, group
    if isinstance(group, click.Group):
        for name, command in group.commands.items():
            yield from commands(command, (*path, name))


@pytest.mark.long
def test_imports_point_from_app_down_to_data_only() -> None:
    above = {
        str(module): imported_layers(ROOT / module) - set(LAYERS[: LAYERS.index(module.parts[0]) + 1])
        for module in MODULES
    }
    assert {module: layers for module, layers in above.items() if layers} == {}


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


@pytest.mark.parametrize("layer", LAYERS)
def test_rooms_import_only_those_below_them_in_the_tables_of_the_architecture(layer: str) -> None:
    rooms = re.findall(rf"^\| `({layer}(?:/\w+)*)` \|", ARCHITECTURE, re.MULTILINE)
    found = {module.parent.as_posix() for module in MODULES if module.parts[0] == layer}
    assert sorted(rooms) == sorted(found - {"indexer/catalogue/migrations/versions"})
    for module in MODULES:
        room = module.parent.as_posix().removesuffix("/versions")
        if module.parts[0] != layer:
            continue
        below = set(rooms[rooms.index(room) :])
        for node in ast.walk(ast.parse((ROOT / module).read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"nearsay.{layer}"):
                named = Path(*str(node.module).split(".")[1:])
                imported = named if (ROOT / named).is_dir() else named.parent
                assert imported.as_posix() in below, f"{module} imports {node.module}"


@pytest.mark.long
def test_no_page_imports_another() -> None:
    rooms = {"app/ui/" + page.module.split(".")[3] for page in PAGES}
    assert len(rooms) == len(PAGES)
    for module in MODULES:
        for node in ast.walk(ast.parse((ROOT / module).read_text("utf-8"))):
            if module.parent.as_posix() in rooms and isinstance(node, ast.ImportFrom):
                named = "/".join((node.module or "").split(".")[1:4])
                assert named not in rooms - {module.parent.as_posix()}, f"{module} imports {node.module}"


def test_the_pages_about_the_code_name_functions_that_are_there() -> None:
    pages = [ARCHITECTURE, *(page.read_text("utf-8") for page in (ROOT / "docs").glob("add-*.md"))]
    walked = [each for page in pages for each in re.findall(r"`((?:\w+/)+\w+\.py)`\s+`(\w+)`", page)]
    assert len(walked) > 20
    for file, function in walked:
        defined = ast.walk(ast.parse((ROOT / file).read_text("utf-8")))
        assert function in {node.name for node in defined if isinstance(node, ast.FunctionDef)}, file


def test_every_package_on_disk_is_listed_for_installation() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    on_disk = {"nearsay." + ".".join(module.parent.parts) for module in MODULES}
    assert set(listed) == on_disk
    assert len(listed) == len(set(listed))


def test_every_folder_of_modules_is_a_package() -> None:
    assert [
        folder
        for folder in {module.parent for module in MODULES}
        if not (ROOT / folder / "__init__.py").exists()
    ] == []


@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_is_typed_and_visible_to_the_type_checker(layer: str) -> None:
    assert (ROOT / layer / "py.typed").exists()
    assert (ROOT / ".dev" / "nearsay" / layer).resolve() == ROOT / layer


def test_no_module_is_named_by_a_word_that_says_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}
    assert [module for module in MODULES if vague & {*module.parts, module.stem}] == []


def test_no_module_has_grown_past_six_hundred_lines() -> None:
    lengths = {module: len((ROOT / module).read_text("utf-8").splitlines()) for module in MODULES}
    assert {module: length for module, length in lengths.items() if length > 600} == {}


def test_every_module_imports_and_every_name_that_it_offers_is_there_in_order() -> None:
    wrong: dict[str, object] = {}
    for module in MODULES:
        if "migrations" in module.parts:
            continue  # Alembic runs them with a context of its own
        try:
            found = importlib.import_module(
                "nearsay." + ".".join(module.with_suffix("").parts).removesuffix(".__init__")
            )
        except Exception as error:  # noqa: BLE001 - the other modules are looked at all the same
            wrong[str(module)] = error
            continue
        names = list(getattr(found, "__all__", []))
        if missing := [name for name in names if not hasattr(found, name)]:
            wrong[str(module)] = f"does not have {missing}"
        elif names != sorted(set(names), key=lambda name: (not name.isupper(), not name[0].isupper(), name)):
            wrong[str(module)] = f"{names} are not in order, or one is there twice"
    assert wrong == {}


def test_every_command_has_help_with_an_example_of_itself() -> None:
    texts = {" ".join(path): command.help or "" for path, command in commands(main, ("nearsay",))}
    assert {path for path, text in texts.items() if not text.split("\n")[0].endswith(".")} == set()
    assert {path for path, text in texts.items() if path not in text} == set()


def test_every_option_says_what_it_does() -> None:
    unsaid = {
        (" ".join(path), option.name)
        for path, command in commands(main, ("nearsay",))
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    }
    assert unsaid == set()


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from nearsay.app.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "heavy = {'torch', 'faiss', 'transformers', 'sentence_transformers', 'streamlit', 'sqlalchemy'}\n"
        "heavy |= {'ray'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "search" in done.stdout
