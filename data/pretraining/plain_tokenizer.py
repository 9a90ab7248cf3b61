"""A tokenizer as it makes tokens of text for pretraining."""

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["plain_tokenizer", "tokenizer_sha256"]


def plain_tokenizer(tokenizer: "Tokenizer") -> "Tokenizer":
    """Copy a tokenizer without truncation and padding, for which a special token's name in a text is text."""
    from tokenizers import Tokenizer

    plain = Tokenizer.from_str(tokenizer.to_str())
    plain.no_truncation()
    plain.no_padding()
    plain.encode_special_tokens = True
    return plain


def tokenizer_sha256(tokenizer: "Tokenizer") -> str:
    """Hash all that decides which tokens a text gives: the tokenizer without its truncation and padding."""
    return hashlib.sha256(plain_tokenizer(tokenizer).to_str().encode()).hexdigest()
