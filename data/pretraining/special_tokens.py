"""The five tokens of a BERT vocabulary that stand for no text."""

from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Final, Self

from nearsay.data.errors import BadInputError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_NAMES: Final = {"pad": "[PAD]", "unknown": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Their numbers in a vocabulary; BadInputError if two are the same or one is negative."""

    pad: int  # [PAD]: fills rows up to the width of a batch
    unknown: int  # [UNK]: a word that the vocabulary cannot spell
    cls: int  # [CLS]: begins every row
    sep: int  # [SEP]: ends every segment
    mask: int  # [MASK]: stands where a token is to be predicted

    def __post_init__(self) -> None:
        ids = self.ids
        if len(set(ids)) != len(ids) or min(ids) < 0:
            named = ", ".join(f"{_NAMES[field.name]} {getattr(self, field.name)}" for field in fields(self))
            raise BadInputError(
                f"the special tokens have the numbers {named}; each needs one of its own, 0 or more"
            )

    @property
    def ids(self) -> tuple[int, ...]:
        """All five, in the order of the fields."""
        return astuple(self)

    @classmethod
    def from_tokenizer(cls, tokenizer: "Tokenizer") -> Self:
        """Find them by their names; BadInputError names those that the tokenizer lacks."""
        found = {field: tokenizer.token_to_id(name) for field, name in _NAMES.items()}
        missing = [_NAMES[field] for field, number in found.items() if number is None]
        if missing:
            raise BadInputError(
                f"the tokenizer has no {', '.join(missing)}; pretraining needs {', '.join(_NAMES.values())}. "
                "Take a BERT tokenizer, or train one: nearsay train vocabulary TEXT --out DIR"
            )
        return cls(**{field: number for field, number in found.items() if number is not None})
