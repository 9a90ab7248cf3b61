"""Imports that clash, as Python itself tells them."""

import sys
import threading
from importlib import import_module

import pytest

from nearsay.app.ui.errors import is_import_clash
from nearsay.data.errors import NearsayError


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """`modules(name=source, …)`: modules that can be imported while the test runs."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names = []

    def write(**sources):
        names.extend(sources)
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source)

    yield write
    for name in names:
        sys.modules.pop(name, None)


def test_modules_that_two_threads_import_from_two_sides_clash(modules):
    side = "import clash_gate\nclash_gate.both.wait(60)\nimport {other}\n{other}.whole\nwhole = 1"
    modules(
        clash_gate="import threading\nboth = threading.Barrier(2)",
        clash_left=side.format(other="clash_right"),
        clash_right=side.format(other="clash_left"),
    )
    errors = []

    def bring(name):
        try:
            import_module(name)
        except Exception as error:  # noqa: BLE001 - which one is asked
            errors.append(error)

    threads = [threading.Thread(target=bring, args=(name,)) for name in ("clash_left", "clash_right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 2  # the other thread meets what the first one left
    assert all(map(is_import_clash, errors))


def test_a_name_that_is_not_there_yet_is_a_clash(modules):
    modules(clash_one="import clash_two\nwhole = 1", clash_two="from clash_one import whole")
    with pytest.raises(ImportError) as told:
        import_module("clash_one")
    assert is_import_clash(told.value)


def test_what_was_raised_from_a_clash_is_one(modules):
    modules(clash_three="import clash_four\nwhole = 1", clash_four="from clash_three import whole")
    with pytest.raises(NearsayError) as told:
        _import_or_say("clash_three")
    assert is_import_clash(told.value)


@pytest.mark.parametrize(
    "source",
    [
        "import not_installed_anywhere",
        "import sys\nsys.not_there",
        "from sys import not_there",
        "'text'.not_there",
        "1 / 0",
    ],
)
def test_other_errors_are_none(modules, source):
    modules(clash_none=source)
    with pytest.raises((ImportError, AttributeError, ArithmeticError)) as told:
        import_module("clash_none")
    assert not is_import_clash(told.value)


def _import_or_say(name):
    try:
        import_module(name)
    except ImportError as error:
        raise NearsayError("it cannot be loaded") from error
