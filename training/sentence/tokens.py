"""Texts to token numbers, for many threads at once."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.sentence.batching import distinct


@dataclass(frozen=True, slots=True)
class TokenizedWindow:
    """A tokenized window of texts, each distinct text once."""

    texts: list[str]  # the distinct texts, without prompt
    token_ids: list[list[int]]  # of each distinct text, with special tokens, truncated
    positions: NDArray[np.int64]  # index of each given text among the distinct ones
    truncated: int  # given texts that were truncated, or have a word too long for the vocabulary


@dataclass(frozen=True, slots=True)
class TokenPiece:
    """One token of a text."""

    text: str  # "##ing" continues a word, in a WordPiece vocabulary
    id: int
    start: int  # characters of the text; start equals end where it stands for none of them
    end: int
    special: bool  # added by the encoder: [CLS], [SEP], its prompt
    kept: bool  # False: beyond the maximum length, so the encoder does not read it


class TextTokenizer:
    """Tokenizes texts for an encoder.

    It has two copies of the encoder's tokenizer, one with truncation and one without, because threads share a
    tokenizer's settings, which must not change.
    """

    def __init__(self, tokenizer: object, limit: int, *, special_tokens: bool = True) -> None:
        """Take copies of a tokenizer.

        tokenizer:      transformers' or a Tokenizer itself
        limit:          most tokens of a text, special tokens included
        special_tokens: whether the model wants them around a text; else it gets the text's tokens alone
        """
        backend = (
            tokenizer if isinstance(tokenizer, Tokenizer) else getattr(tokenizer, "backend_tokenizer", None)
        )
        if not isinstance(backend, Tokenizer):
            raise NearsayError(
                f"the encoder's tokenizer is a {type(tokenizer).__name__}, which has no fast form. "
                "Save a tokenizer.json beside its weights"
            )
        definition = backend.to_str() if special_tokens else _without_special_tokens(backend)
        self._whole = Tokenizer.from_str(definition)
        self._whole.no_padding()
        self._whole.no_truncation()
        self.special_tokens = self._whole.num_special_tokens_to_add(is_pair=False)
        if limit <= self.special_tokens:
            raise NearsayError(
                f"the encoder's length limit of {limit} tokens leaves no room beside its "
                f"{self.special_tokens} special tokens. Raise max_seq_length in its sentence_bert_config.json"
            )
        self._cutting = Tokenizer.from_str(definition)
        self._cutting.no_padding()
        named = (backend.truncation or {}).get("direction", "right")
        side = str(getattr(tokenizer, "truncation_side", named)).lower()
        self._cutting.enable_truncation(limit, direction=side)
        self._keeps_the_end = side == "left"
        self.limit = limit
        # WordPiece gives one unknown token for a word of more characters: all of it is lost.
        self._longest_word: int | None = getattr(self._whole.model, "max_input_chars_per_word", None)
        self._parts_at_spaces = isinstance(self._whole.pre_tokenizer, BertPreTokenizer)
        self._unknown = self._whole.token_to_id(getattr(self._whole.model, "unk_token", None) or "")
        if any(self._whole.encode("a").type_ids):
            raise NearsayError("the encoder's tokenizer numbers segments, which nearsay does not pass on")

    def window(self, texts: Sequence[str], prompt: str = "") -> TokenizedWindow:
        """Tokenize a window with the prompt before each text; BadInputError for invalid Unicode."""
        different, positions = distinct(_checked(texts))
        encodings = _encoded(self._cutting, [prompt + text for text in different] if prompt else different)
        token_ids = [encoding.ids for encoding in encodings]
        cut = np.fromiter((bool(encoding.overflowing) for encoding in encodings), bool, len(encodings))
        cut |= self._lose_a_word(different, token_ids, ~cut)
        return TokenizedWindow(
            texts=different,
            token_ids=token_ids,
            positions=positions,
            truncated=int(cut[positions].sum()),
        )

    def _lose_a_word(
        self, texts: Sequence[str], token_ids: Sequence[list[int]], asked: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Which of the texts that are asked about have a word too long for the vocabulary, (texts,)."""
        lost = np.zeros(len(texts), dtype=np.bool_)
        longest = self._longest_word
        if longest is None:
            return lost
        # Texts with an unknown sign in them can be many: those that may have one are cut again together.
        suspects = [
            place
            for place, (text, ids) in enumerate(zip(texts, token_ids, strict=True))
            if asked[place] and self._unknown in ids and self._longest_run(text) > longest
        ]
        found = _encoded(self._cutting, [texts[place] for place in suspects], offsets=True)
        for place, encoding in zip(suspects, found, strict=True):
            lost[place] = any(
                number == self._unknown and end - start > longest
                for number, (start, end) in zip(encoding.ids, encoding.offsets, strict=True)
            )
        return lost

    def _longest_run(self, text: str) -> int:
        """Return at least the characters of the text's longest word."""
        return max(map(len, text.split(" "))) if self._parts_at_spaces else len(text)

    def count(self, texts: Sequence[str], prompt: str = "") -> int:
        """Count the texts' tokens as the model gets them; BadInputError for invalid Unicode."""
        return sum(
            len(encoding.ids) for encoding in _encoded(self._cutting, [prompt + text for text in texts])
        )

    def encodings(self, texts: Sequence[str], prompt: str = "") -> list[Encoding]:
        """Tokenize texts like `window`, with character offsets, which is slower."""
        given = [prompt + text for text in _checked(texts)] if prompt else list(_checked(texts))
        return _encoded(self._cutting, given, offsets=True)

    def offsets(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Give each text's tokens as (tokens, 2) character spans, uncut, without special tokens."""
        encodings = _encoded(self._whole, _checked(texts), offsets=True, special=False)
        return [np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2) for encoding in encodings]

    def pieces(self, text: str, prompt: str = "") -> list[TokenPiece]:
        """All tokens of a text, also beyond the maximum length; BadInputError for invalid Unicode."""
        (encoding,) = _encoded(self._whole, [prompt + text], offsets=True)
        pieces: list[TokenPiece] = []
        room = self.limit - self.special_tokens
        at = min(self.limit - len(encoding.ids), 0) if self._keeps_the_end else 0  # among those that are kept
        for token, number, (start, end), put_in in zip(
            encoding.tokens, encoding.ids, encoding.offsets, encoding.special_tokens_mask, strict=True
        ):
            own = not put_in and end > len(prompt)
            place = (max(start - len(prompt), 0), end - len(prompt)) if own else (0, 0)
            kept = bool(put_in) or 0 <= at < room
            pieces.append(TokenPiece(token, number, *place, special=not own, kept=kept))
            at += not put_in
        return pieces

    def prompt_length(self, prompt: str) -> int:
        """Number of tokens of a prompt, with preceding special tokens; 0 for no prompt."""
        if not prompt:
            return 0
        encoding = self._whole.encode(prompt)
        return len(encoding.ids) - encoding.special_tokens_mask[-1] if encoding.ids else 0

    def room_after(self, prompt: str) -> int:
        """Maximum tokens of a text beside the special tokens and a prompt, at least 1."""
        prompt_tokens = len(self._whole.encode(prompt, add_special_tokens=False).ids)
        return max(self.limit - self.special_tokens - prompt_tokens, 1)


def shortened(text: str, characters: int = 80) -> str:
    """The beginning of a text, quoted, for a message."""
    return repr(text if len(text) <= characters else f"{text[:characters]}…")


def _without_special_tokens(tokenizer: Tokenizer) -> str:
    """The tokenizer's definition without the step that puts them in."""
    definition: str = json.dumps({**json.loads(tokenizer.to_str()), "post_processor": None})
    return definition


def _checked(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise TypeError("texts is one string; give a list of texts")
    return texts


def _encoded(
    tokenizer: Tokenizer, texts: Sequence[str], *, offsets: bool = False, special: bool = True
) -> list[Encoding]:
    encode = tokenizer.encode_batch if offsets else tokenizer.encode_batch_fast
    try:
        return encode(texts, add_special_tokens=special)
    except TypeError as error:
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"a text is a {type(text).__name__}, not a string") from error
            if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
                raise BadInputError(
                    f"the text {shortened(text)} holds half a character (a lone surrogate). "
                    "Read its file as UTF-8 again, or remove it"
                ) from error
        raise
