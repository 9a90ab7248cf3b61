"""What a message must name, whatever its wording."""

import re


class Naming:
    """Equals a text of which one line names all these values, in this order and each as a whole word.

    Naming("pets.csv", 2) equals "pets.csv: 2 rows lack a text", and neither "pets.csv: 12 rows lack a text"
    nor "pets.csv: 2.5 of them". In a list it stands for one message: notes == [Naming("cut", 3)].
    """

    def __init__(self, *values: object) -> None:
        if not all(map(str, values)) or not values:
            raise ValueError("name at least one value, and none that is empty")
        self.values = values
        self._pattern = re.compile(".*".join(map(_whole, map(str, values))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self._pattern.search(other) is not None

    __hash__ = None  # type: ignore[assignment] - equal texts have other hashes

    def __repr__(self) -> str:
        return f"Naming({', '.join(map(repr, self.values))})"


def _whole(value: str) -> str:
    """A pattern of this text where it is no part of a longer word or number."""
    before = r"(?<!\w)(?<!\d[.,])" if re.match(r"\w", value) else ""
    after = r"(?!\w)(?![.,]\d)" if re.search(r"\w$", value) else ""
    return before + re.escape(value) + after
