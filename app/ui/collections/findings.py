"""What the doctor found, from what its run printed."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["finding_rows", "verdict"]


def finding_rows(output: Sequence[Any]) -> list[dict[str, str]]:
    """A line a finding, what is wrong first; word and mark tell it, not a colour."""
    found = [line for line in output if isinstance(line, Mapping) and {"subject", "sound"} <= line.keys()]
    rows = [
        {
            "state": "✓ sound" if line["sound"] else "✗ wrong",
            "what": str(line["subject"]),
            "found": str(line.get("detail", "")),
        }
        for line in found
    ]
    return sorted(rows, key=lambda row: row["state"] != "✗ wrong")


def verdict(rows: Sequence[Mapping[str, str]]) -> str:
    """All in one sentence."""
    wrong = sum(row["state"] == "✗ wrong" for row in rows)
    if not rows:
        return "Nothing was looked at."
    if not wrong:
        return f"Everything is sound: {len(rows)} things were looked at."
    verb = "is" if wrong == 1 else "are"
    return f"{wrong} of the {len(rows)} things that were looked at {verb} wrong; each says how it is mended."
