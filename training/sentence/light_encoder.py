"""The encoder that a search opens: few texts by ONNX Runtime at once, a corpus by torch when there is one."""

import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.threads import ThreadLock
from nearsay.training.encoder.folder import EncoderFolder, UnsupportedEncoderError
from nearsay.training.encoder.plain_encoder import read_plain_encoder
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.contributing import ContributingPass, OpenedEncoder, TextContributions
from nearsay.training.sentence.fingerprint import encoder_fingerprint
from nearsay.training.sentence.light_model import LightModel
from nearsay.training.sentence.pooling_shares import shares_of_plain
from nearsay.training.sentence.prompts import prompt_note
from nearsay.training.sentence.refusal import checked_weights
from nearsay.training.sentence.source import EncoderSource, find_encoder
from nearsay.training.sentence.text_encoder import EncodedWindow, TextEncoder, TextKind
from nearsay.training.sentence.tokens import TextTokenizer, TokenizedWindow
from nearsay.training.sentence.vectors import checked_vectors

if TYPE_CHECKING:
    from nearsay.training.sentence.encoder import Encoder

logger = logging.getLogger("nearsay")

_MOST_TOKENS = 4096  # of questions together, or of a page of hits; for more, torch is worth its import
# Tokens of passages to be stored: of the bundled encoder they take about as long as importing torch does. Of
# a larger one they are fewer, in proportion to its layers' weights.
_MOST_OF_PASSAGES = 16_384
_BUNDLED_SIZE = 6 * 384**2  # layers times the square of their width
_CHARACTERS = 16  # rarely has a token as many: a longer text is known to be long before it is tokenized


def open_encoder(
    name_or_folder: str | Path = BUNDLED_NAME, *, device: str | None = None, precision: str = "auto"
) -> TextEncoder:
    """Open an encoder for searching, without torch if its architecture and the options allow.

    device:    as for `Encoder.load`; an explicit device other than the CPU needs torch
    precision: as for `Encoder.load`; an explicit half precision needs torch

    Raises like `Encoder.load`.
    """
    formats = ("auto", "float32", "bfloat16", "float16")
    if precision not in formats:
        raise BadInputError(f"'{precision}' is not a precision. Take one of: {', '.join(formats)}")
    if _wish_for_torch(device, precision) is None:
        try:
            return LightEncoder(find_encoder(name_or_folder), device=device, precision=precision)
        except UnsupportedEncoderError as reason:
            logger.debug("%s is run by torch: %s", name_or_folder, reason)
    from nearsay.training.encoder.hardware import Precision
    from nearsay.training.sentence.encoder import Encoder

    return Encoder.load(name_or_folder, device=device, precision=Precision(precision))


def reason_for_torch(folder: EncoderFolder, *, device: str | None, precision: str) -> str | None:
    """Why `open_encoder` needs torch for an encoder; None if it does not."""
    wish = _wish_for_torch(device, precision)
    if wish is None:
        try:
            LightModel(read_plain_encoder(folder))
        except UnsupportedEncoderError as reason:
            return str(reason)
    return wish


def _wish_for_torch(device: str | None, precision: str) -> str | None:
    if device not in {None, "auto", "cpu"}:
        return f"the device {device} is asked for"
    return None if precision in {"auto", "float32"} else f"the precision {precision} is asked for"


class LightEncoder(OpenedEncoder):
    """Encodes a few texts in float32 with ONNX Runtime, and loads `Encoder` for larger numbers.

    Queries of up to 4,096 tokens in total are always encoded here, so that a query has one vector; more of
    them are encoded by torch in its precision. Passages are encoded here up to 16,384 tokens in total,
    fewer for an encoder larger than the bundled one, and none if there may be a GPU. Explanations (token
    contributions and `encode_window`) are computed here until torch is loaded. A static encoder, which only
    averages embeddings, never needs torch. Thread-safe.
    """

    def __init__(self, source: EncoderSource, *, device: str | None = None, precision: str = "auto") -> None:
        """Use `open_encoder`; raises UnsupportedEncoderError where the encoder needs torch."""
        folder = source.folder
        weights = checked_weights(source)
        plain = read_plain_encoder(folder)
        if (note := prompt_note(source)) is not None:
            logger.warning("%s", note)
        self._model = LightModel(plain)
        self._plain = plain
        tokens = TextTokenizer(plain.tokenizer, plain.limit, special_tokens=plain.transformer is not None)
        super().__init__(source, weights, tokens)
        self._source = source
        self.normalised = plain.normalised
        self._contributing = ContributingPass(shares_of_plain(plain), self._tokens, self._model.token_states)
        self.dimension = self._model.vectors(self._tokens.window(["a"]).token_ids).shape[1]
        self._looks_up = plain.transformer is None
        self._device = device
        self._precision = precision
        self._loading = ThreadLock()
        self._loaded: Encoder | None = None
        self._passage_tokens = 0  # that were encoded here
        transformer = plain.transformer
        size = transformer.depth * transformer.width**2 if transformer else 0
        most = _MOST_OF_PASSAGES * _BUNDLED_SIZE // max(size, _BUNDLED_SIZE)
        self._most_of_passages = 0 if _has_gpu(device) else most

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        """Encode texts, (texts, dimension), like `Encoder.encode`."""
        window = self._few(texts, kind) if kind == TextKind.QUERY else self._few_passages(texts)
        if window is None:
            return self.full().encode(texts, kind=kind)
        encoded = self._encoded(window, kind)
        self._warn_of_cuts(encoded.truncated, len(texts))
        return encoded.vectors

    def encode_window(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> EncodedWindow:
        """Encode one window for comparisons. Returns the vectors and the number of truncated texts."""
        window = self._few(texts, kind) if kind == TextKind.QUERY or self._loaded is None else None
        return self.full().encode_window(texts, kind=kind) if window is None else self._encoded(window, kind)

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        """Yield one `EncodedWindow` for each window, in order."""
        if kind == TextKind.QUERY:
            yield from (self.encode_window(window, kind=kind) for window in windows)
            return
        remaining = iter(windows)
        for texts in remaining:
            window = self._few_passages(texts)
            if window is None:
                yield from self.full().stream(chain([texts], remaining), kind=kind)
                return
            yield self._encoded(window, kind)

    def contributions(
        self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE
    ) -> list[TextContributions] | None:
        """Compute the contributions of each text's tokens; None if vectors are not a sum over tokens."""
        if not self._contributing.explains:
            return None
        few = self._looks_up or (
            self._loaded is None and self._tokens.count(texts, self._prompts[kind]) <= _MOST_TOKENS
        )
        if few:
            return self._contributing.run(
                texts, prompt=self._prompts[kind], prompt_length=self._prompt_lengths[kind]
            )
        return self.full().contributions(texts, kind=kind)

    def full(self) -> "Encoder":
        """The same encoder in torch, loaded once; raises NearsayError if its folder has changed."""
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load_full()
            return self._loaded

    def _load_full(self) -> "Encoder":
        from nearsay.training.encoder.hardware import Precision
        from nearsay.training.sentence.encoder import Encoder

        found = encoder_fingerprint(self._source.folder)
        if found != self.fingerprint:
            raise NearsayError(
                f"the encoder in {self.source} changed after it was opened: its fingerprint was "
                f"{self.fingerprint[:12]} and is {found[:12]}. Open the library again"
            )
        return Encoder.load_found(
            self._source, plain=self._plain, device=self._device, precision=Precision(self._precision)
        )

    def _few(self, texts: Sequence[str], kind: TextKind, most: int = _MOST_TOKENS) -> TokenizedWindow | None:
        """The tokenized texts when they are few enough to be encoded here."""
        if self._looks_up and texts:
            return self._tokens.window(texts, self._prompts[kind])
        longest = self._plain.limit * _CHARACTERS
        characters = sum(min(len(text), longest) for text in set(texts))
        if not 0 < len(texts) <= most or characters > most * _CHARACTERS:
            return None
        window = self._tokens.window(texts, self._prompts[kind])
        least = 0 if self._plain.include_prompt else self._prompt_lengths[kind]
        if _count(window) > most or any(len(ids) <= least for ids in window.token_ids):
            return None
        return window

    def _few_passages(self, texts: Sequence[str]) -> TokenizedWindow | None:
        """As `_few`, for texts to be stored, of which there may have been others."""
        if self._loaded is not None and not self._looks_up:
            return None
        window = self._few(texts, TextKind.PASSAGE, self._most_of_passages - self._passage_tokens)
        if window is not None:
            self._passage_tokens += _count(window)
        return window

    def _encoded(self, window: TokenizedWindow, kind: TextKind) -> EncodedWindow:
        vectors = self._model.vectors(window.token_ids, prompt_length=self._prompt_lengths[kind])
        return EncodedWindow(
            checked_vectors(vectors, window.texts, self.name)[window.positions], window.truncated
        )


def _has_gpu(device: str | None) -> bool:
    """Whether torch may find a GPU for passages, as far as can be seen without it."""
    return device != "cpu" and (sys.platform != "linux" or Path("/dev/nvidiactl").exists())


def _count(window: TokenizedWindow) -> int:
    return sum(len(ids) for ids in window.token_ids)
