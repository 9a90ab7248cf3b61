"""The encoder that runs: texts in, vectors out."""

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import NearsayError
from nearsay.training.encoder.folder import UnsupportedEncoderError
from nearsay.training.encoder.hardware import Precision, choose_hardware
from nearsay.training.encoder.packed_encoder import PackedEncoder
from nearsay.training.encoder.plain_encoder import PlainEncoder, read_plain_encoder
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.contributing import ContributingPass, OpenedEncoder, TextContributions
from nearsay.training.sentence.forward import ForwardPass
from nearsay.training.sentence.pooling_shares import pooling_shares, shares_of_plain
from nearsay.training.sentence.prompts import prompt_note
from nearsay.training.sentence.refusal import checked_weights
from nearsay.training.sentence.source import EncoderSource, find_encoder
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind, encoded_texts
from nearsay.training.sentence.tokens import TextTokenizer, TokenizedWindow
from nearsay.training.sentence.vectors import checked_vectors, unit_rows

if TYPE_CHECKING:  # seconds to import, and not needed for what is read from plain files
    from sentence_transformers import SentenceTransformer

logger = logging.getLogger("nearsay")

_WINDOW_TEXTS = 4096  # texts that `encode` sorts by length together while the next ones are tokenized
_GPU_WINDOWS_AHEAD = 3  # windows tokenized or being tokenized beside those that a GPU has
_GPU_WINDOWS_BEGUN = 1  # windows whose vectors are still on their way while the next is given to the GPU


class Encoder(OpenedEncoder):
    """A pooled sentence encoder. Thread-safe: batches of several threads alternate.

    Create one with `Encoder.load`.
    """

    def __init__(
        self,
        model: "SentenceTransformer | PlainEncoder",
        source: EncoderSource,
        *,
        device: str,
        precision: Precision,
        weights: Mapping[str, str],
    ) -> None:
        """`precision`: a resolved one; `weights`: the hex sha256 of each weight file, by its path."""
        if isinstance(model, PlainEncoder):
            self.normalised = model.normalised
            tokens = TextTokenizer(model.tokenizer, model.limit)
            shares = shares_of_plain(model)
        else:
            from nearsay.training.sentence.loading import gives_unit_vectors, is_static, length_limit

            self.normalised = gives_unit_vectors(model)
            limit = length_limit(model, source.folder)
            tokens = TextTokenizer(model.tokenizer, limit, special_tokens=not is_static(model))
            shares = pooling_shares(model)
        super().__init__(source, weights, tokens)
        self.device = device
        self.precision = precision
        self._process = os.getpid()
        self._forward = ForwardPass(model, device=device, precision=precision)
        self._contributing = ContributingPass(shares, self._tokens, self._forward.token_vectors)
        on_gpu = device.partition(":")[0] == "cuda"
        self._ahead = _GPU_WINDOWS_AHEAD if on_gpu else 1
        self._begun_ahead = _GPU_WINDOWS_BEGUN if on_gpu else 0
        self.dimension = self._forward.run(self._tokens.window(["a"]).token_ids).shape[1]

    @classmethod
    def load(
        cls,
        name_or_folder: str | Path = BUNDLED_NAME,
        *,
        device: str | None = None,
        precision: Precision = Precision.AUTO,
    ) -> "Encoder":
        """Load the bundled encoder, or one from a folder or a hub.

        device: "cpu", "cuda", "cuda:1", "mps"; None = a working GPU, else the CPU

        Raises NearsayError if the encoder does not exist, EncoderRefusedError if it contains code, and
        BadInputError if the device does not exist.
        """
        return cls.load_found(find_encoder(name_or_folder), device=device, precision=precision)

    @classmethod
    def load_found(
        cls,
        source: EncoderSource,
        *,
        plain: PlainEncoder | None = None,
        device: str | None = None,
        precision: Precision = Precision.AUTO,
    ) -> "Encoder":
        """Like `load`, from a folder already found; `plain`: its files, if already read."""
        chosen, resolved = choose_hardware(device, precision)
        weights = checked_weights(source)
        if plain is None and (note := prompt_note(source)) is not None:
            logger.warning("%s", note)
        plain = plain or _read(source)
        if plain is None or not PackedEncoder.runs(plain):
            from nearsay.training.sentence.loading import load_model

            model = load_model(source.folder, chosen)
            return cls(model, source, device=chosen, precision=resolved, weights=weights)
        return cls(plain, source, device=chosen, precision=resolved, weights=weights)

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        """Encode texts, (texts, dimension), C-contiguous; truncated texts are logged as a warning.

        Raises NearsayError if a vector is NaN, infinite or all zero.
        """
        vectors, truncated = encoded_texts(self, texts, kind=kind, window=_WINDOW_TEXTS)
        self._warn_of_cuts(truncated, len(texts))
        return vectors

    def encode_window(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> EncodedWindow:
        """Encode one window on the calling thread. Returns the vectors and the number of truncated texts."""
        return self._begun(self._tokenized(texts, kind), kind)()

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        """Yield one `EncodedWindow` per window, in order, tokenizing the next one while the model runs.

        `windows` is read one window ahead, for a GPU a few, see `streamed`.
        """
        yield from streamed(
            windows,
            lambda texts: self._tokenized(texts, kind),
            lambda window: self._begun(window, kind),
            ahead=self._ahead,
            begun_ahead=self._begun_ahead,
        )

    def contributions(
        self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE
    ) -> list[TextContributions] | None:
        """Give each text's vector token by token; None when this encoder's vectors are no sum over tokens."""
        self._require_threads()
        return self._contributing.run(
            texts, prompt=self._prompts[kind], prompt_length=self._prompt_lengths[kind]
        )

    def _tokenized(self, texts: Sequence[str], kind: TextKind) -> TokenizedWindow:
        return self._tokens.window(texts, self._prompts[kind])

    def _begun(self, window: TokenizedWindow, kind: TextKind) -> Callable[[], EncodedWindow]:
        """Give the model a window; what is given back waits for the vectors."""
        if not window.texts:
            return lambda: EncodedWindow(np.empty((0, self.dimension), dtype=np.float32), 0)
        self._require_threads()
        finish = self._forward.start(window.token_ids, prompt_length=self._prompt_lengths[kind])

        def encoded() -> EncodedWindow:
            vectors = checked_vectors(finish(), window.texts, self.name)
            if self.normalised and self.precision is not Precision.FLOAT32:
                unit_rows(vectors)
            return EncodedWindow(vectors[window.positions], window.truncated)

        return encoded

    def _require_threads(self) -> None:
        if os.getpid() != self._process:  # torch would wait for threads that are not there
            raise NearsayError(
                f"'{self.name}' was loaded by torch before a fork, and its threads are not in this process. "
                "Open the library after the fork, or begin processes by spawn"
            )


def streamed(
    windows: Iterable[Sequence[str]],
    tokenized: Callable[[Sequence[str]], TokenizedWindow],
    begun: Callable[[TokenizedWindow], Callable[[], EncodedWindow]],
    *,
    ahead: int = 1,
    begun_ahead: int = 0,
) -> Iterator[EncodedWindow]:
    """Encode windows of texts in order, tokenizing the next ones on a thread while the model runs.

    begun:       starts encoding a window; its result waits for the vectors
    ahead:       windows to tokenize ahead of those that the model has
    begun_ahead: windows that may be in the model while the next one is started

    `windows` is read on the calling thread. An exception from reading or tokenizing is raised after the
    windows that the model already has, before later ones. A single window starts no thread; closing the
    generator ends its thread.
    """
    source = iter(windows)
    read = list(islice(source, 1 + ahead))
    if len(read) < 2:
        yield from (begun(tokenized(window))() for window in read)
        return
    waiting: deque[Callable[[], EncodedWindow]] = deque()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="nearsay-tokenizer") as tokenizer:
        following = deque(tokenizer.submit(tokenized, window) for window in read)
        del read
        failure: Exception | None = None
        while following:
            try:
                window = following.popleft().result()
            except Exception as error:  # noqa: BLE001 - raised below, after the windows before it
                failure = error
                break
            waiting.append(begun(window))
            if len(waiting) > begun_ahead:
                yield waiting.popleft()()
            try:
                further = list(islice(source, 1))
            except Exception as error:  # noqa: BLE001 - as above
                failure = error
                break
            following.extend(tokenizer.submit(tokenized, texts) for texts in further)
        while waiting:
            yield waiting.popleft()()
        if failure is not None:
            raise failure


def _read(source: EncoderSource) -> PlainEncoder | None:
    """The encoder's files; None where sentence-transformers and transformers have to load it."""
    try:
        return read_plain_encoder(source.folder)
    except UnsupportedEncoderError as reason:
        logger.debug("%s is loaded by sentence-transformers: %s", source.name, reason)
        return None
