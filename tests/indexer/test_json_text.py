"""JSON as it is stored and hashed is what the standard library writes."""

import json
from json import encoder
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.data.document import JsonValue
from nearsay.indexer.catalogue import json_values as module
from nearsay.indexer.catalogue.json_values import json_text, sorted_json_text

_VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES)
def test_values_are_written_as_the_standard_library_writes_them(value: JsonValue) -> None:
    assert json_text(value) == json.dumps(value, ensure_ascii=False)
    assert sorted_json_text(value) == json.dumps(value, ensure_ascii=False, sort_keys=True)


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()))
def test_json_keeps_its_letters_and_its_order(value: dict[str, object]) -> None:
    assert list(json.loads(json_text(value)).items()) == list(value.items())


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError, match="set"):
        json_text({"a": {1}})


@pytest.mark.parametrize("other", [None, lambda _markers, _default: None], ids=["none", "another"])
def test_a_python_without_the_encoder_in_c_or_with_another_writes_the_same(
    monkeypatch: pytest.MonkeyPatch, other: object
) -> None:
    here = SimpleNamespace(c_make_encoder=other, encode_basestring=encoder.encode_basestring)
    monkeypatch.setattr(module, "standard", here)
    value = {"b": 'Ж"\n', "a": [1, 2.5, None]}
    assert module._writer(sort_keys=True)(value) == sorted_json_text(value)
