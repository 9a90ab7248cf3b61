"""Reports go to JSON and come back the same."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.data.report import Finding, Report, as_json
from nearsay.indexer import AddReport
from nearsay.indexer.duplicates.pairs import PairedPassage
from nearsay.indexer.exploring.unlike import RemotePassage
from nearsay.indexer.plans.plan import RecallContract
from nearsay.indexer.results import REPORTS, class_of, newest, reports

KIND = re.compile(r'^    REPORT: ClassVar = "(.+)"$', re.MULTILINE)
_PLAIN = {
    float: st.floats(allow_nan=False),
    # What JSON lines keep of a text: no half of a surrogate pair.
    str: st.text(st.characters(exclude_categories=["Cs"])),
    Path: st.text("ab/.").map(Path),
    RecallContract: st.builds(  # others are refused
        RecallContract,
        recall=st.floats(0.0, 1.0, exclude_min=True),
        at=st.integers(1, 100),
        memory_bytes=st.none() | st.integers(min_value=1),
    ),
}


def _any_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    """A class with any values; a field of plain JSON holds texts."""
    built: dict[str, Any] = {}
    hints = get_type_hints(kind)
    for each in dataclasses.fields(kind):
        if not each.init:
            continue
        if each.name in ("metadata", "details", "facts", "gate", "parameters"):
            built[each.name] = st.dictionaries(_PLAIN[str], _PLAIN[str])
        else:
            built[each.name] = st.from_type(hints[each.name])
    return st.builds(kind, **built)


@pytest.mark.long
@pytest.mark.parametrize("kind", REPORTS)
def test_a_report_comes_back_from_json_as_it_was(kind: str) -> None:
    reported = class_of(kind)
    assert (kind, dataclasses.is_dataclass(reported)) == (reported.REPORT, True)
    for plain, values in _PLAIN.items():
        st.register_type_strategy(plain, values)
    for nested in (PairedPassage, RemotePassage):
        st.register_type_strategy(nested, _any_of(nested))

    @given(_any_of(reported))
    def comes_back(report: Report) -> None:
        printed = json.loads(json.dumps(report.to_json()))
        assert printed["report"] == kind
        assert reported.from_json(printed) == report
        assert list(reports([printed])) == [report]

    comes_back()


def test_a_set_is_refused_for_it_would_come_back_as_a_list() -> None:
    for value in ({"a"}, frozenset({"a"})):
        with pytest.raises(TypeError, match="no form in JSON"):
            as_json(value)


def test_every_report_of_the_library_is_registered() -> None:
    root = Path(__file__).parent.parent.parent
    modules = (path for layer in ("data", "training", "indexer") for path in (root / layer).rglob("*.py"))
    named = [kind for path in modules for kind in KIND.findall(path.read_text("utf-8"))]
    assert sorted(named) == sorted(REPORTS)


def test_what_is_no_report_is_passed_over() -> None:
    sound = Finding("torch", "2.10", sound=True)
    lines = ["text", {"other": 1}, {"report": "of tomorrow"}, {"report": "added"}, sound.to_json(), [1], None]
    assert list(reports(lines)) == [sound]
    assert newest(lines, AddReport) is None


def test_the_newest_of_a_class_is_found() -> None:
    first, last = (Finding("torch", version, sound=True) for version in ("2.10", "2.11"))
    assert newest([first.to_json(), last.to_json(), "text"], Finding) == last
