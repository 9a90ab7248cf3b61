"""Documents' ids in the address."""

import json
from collections.abc import Sequence

__all__ = ["read_ids", "written_ids"]


def written_ids(ids: Sequence[str]) -> str:
    """The ids on one line; "" for none, and one that stands for itself as it is."""
    if len(ids) == 1 and read_ids(ids[0]) == (ids[0],):
        return ids[0]
    return json.dumps(list(ids), ensure_ascii=False, separators=(",", ":")) if ids else ""


def read_ids(text: str) -> tuple[str, ...]:
    """The ids that `written_ids` wrote, each once; any other text is one id."""
    if not text.strip():
        return ()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list) and all(isinstance(one, str) for one in found):
        return tuple(dict.fromkeys(one for one in found if one.strip()))
    return (text,)
