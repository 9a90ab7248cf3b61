"""JSON as it is stored and hashed."""

import json
from collections.abc import Callable
from json import encoder as standard
from typing import Final

__all__ = ["json_text", "sorted_json_text"]


def _writer(*, sort_keys: bool) -> Callable[[object], str]:
    """What `json.dumps(…, ensure_ascii=False, sort_keys=sort_keys)` does, in half its time for a small value.

    `JSONEncoder.encode` makes a new encoder in C for each value; where Python has that encoder, and it takes
    what CPython's took in 3.11, it is made once here. It looks for no circles: values come from readers that
    hold them to a depth.
    """
    plain = json.JSONEncoder(ensure_ascii=False, sort_keys=sort_keys)
    make = getattr(standard, "c_make_encoder", None)
    if make is None:
        return plain.encode
    try:
        pieces = make(
            None, plain.default, standard.encode_basestring, None, ": ", ", ", sort_keys, False, True
        )
    except TypeError:  # Python does not document it
        return plain.encode

    def text(value: object) -> str:
        return "".join(pieces(value, 0))

    return text


# Names of fields are stored as they are, so that SQLite's JSON paths find them.
json_text: Final = _writer(sort_keys=False)
sorted_json_text: Final = _writer(sort_keys=True)
