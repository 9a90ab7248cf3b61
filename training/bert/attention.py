"""Inside an encoder: each head's attention, each layer's states, and what a token adds to the text's vector.

Models run by transformers' "eager" attention, the one that gives its weights, in float32. Every kind that
`load_bert` takes is read alike: BERT, RoBERTa, XLM-R, CamemBERT, DistilBERT, ELECTRA, MPNet.

After exBERT: Hoover, Strobelt & Gehrmann 2019, https://arxiv.org/abs/1910.05276
"""

import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import rel_entr
from tokenizers import Encoding, Tokenizer
from transformers import MODEL_FOR_MASKED_LM_MAPPING, MODEL_MAPPING, PreTrainedModel

from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.training.bert.bert_folder import BertFolder, load_bert, load_model
from nearsay.training.bert.fill import Candidate, likeliest
from nearsay.training.bert.relevance import PooledVector, TokenRelevance, rollout
from nearsay.training.encoder.hardware import choose_device
from nearsay.training.encoder.workers import Workers
from nearsay.training.sentence.batching import token_batches
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.fingerprint import encoder_fingerprint
from nearsay.training.sentence.forward import padded
from nearsay.training.sentence.prompts import prompts_of
from nearsay.training.sentence.text_encoder import TextKind
from nearsay.training.sentence.tokens import TextTokenizer

MOST_TOKENS = 512
_SHORT = 128  # tokens
_BATCH_TOKENS = 2048  # more leaves the cache, and every layer's weights of attention are held at once
# What mixes a layer's heads; its input is their outputs side by side.
_MIXERS = ("attention.output.dense", "attention.out_lin", "attention.attn.o")

Array: TypeAlias = NDArray[np.float32]
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class InnerToken:
    """A token as the encoder reads it."""

    text: str  # as in the vocabulary; of a masked token, the original one
    start: int  # characters of its text; start equals end for special tokens and the prompt
    end: int
    segment: int  # 0, or 1 for the second text of a pair
    special: bool  # added by the tokenizer, such as [CLS] and [SEP]
    masked: bool = False


@dataclass(frozen=True, slots=True)
class TextAttention:
    """The attention and hidden states of a text or a pair."""

    tokens: tuple[InnerToken, ...]
    attentions: Array  # (layers, heads, tokens, tokens): row i is the attention of token i; rows sum to 1
    states: Array  # (layers + 1, tokens, width): the embeddings, then each layer's output
    contexts: Array  # (layers, tokens, heads * head width): the heads' outputs, concatenated
    words: tuple[tuple[Candidate, ...], ...]  # of each masked token, likeliest first; () without an MLM head
    notes: tuple[str, ...]  # what was truncated

    @property
    def heads(self) -> int:
        """Number of heads per layer."""
        return int(self.attentions.shape[1])


@dataclass(frozen=True, slots=True)
class LayerStates:
    """The states of one layer for a text."""

    states: Array  # (tokens, width), its output
    contexts: Array  # (tokens, heads * head width)
    attention: Array  # (heads, tokens, tokens)


class AttentionReader:
    """Computes attention and hidden states of an encoder. Thread-safe. See `AttentionReader.load`."""

    def __init__(self, bert: BertFolder, device: str, *, deepest: int | None = None) -> None:
        """As `load`, of a folder that was found and on a device that is there."""
        self.name, self.source, self.lineage = bert.name, bert.source, bert.lineage
        self.fingerprint = encoder_fingerprint(bert.folder)
        self._bert, self._device = bert, device
        self.most_tokens = min(bert.positions, MOST_TOKENS)
        model, self.has_words = _loaded(bert, deepest)
        self._model = model.to(torch.device(device))  # type: ignore[arg-type]  # hides torch's signature
        self._body = cast("PreTrainedModel", model.base_model)
        self._model.requires_grad_(requires_grad=False)
        self._takes_segments = "token_type_ids" in inspect.signature(self._body.forward).parameters
        mixers = [module for name, module in self._body.named_modules() if name.endswith(_MIXERS)]
        self.layers, self.heads = len(mixers), int(bert.config.num_attention_heads)
        self.head_width = int(bert.config.hidden_size) // self.heads
        self._passing = threading.local()  # what the mixers got in this thread's pass under way, by layer
        for mixer in mixers:
            mixer.register_forward_pre_hook(lambda _, given: self._passing.mixed.append(given[0].detach()))
        self._cutting = Tokenizer.from_str(bert.tokenizer.to_str())
        self._cutting.enable_truncation(self.most_tokens)
        self._mask = bert.pretrained_tokenizer.mask_token_id
        self._prompts = prompts_of(bert.folder)
        self._texts = self.tokenizer(bert.max_tokens)
        self._pad = int(bert.config.pad_token_id or 0)
        self._pooled = PooledVector(bert)
        self._turn = threading.Lock()
        self._workers = Workers() if device == "cpu" else None

    @classmethod
    def load(
        cls,
        name_or_folder: str | Path = BUNDLED_NAME,
        *,
        device: str | None = None,
        deepest: int | None = None,
    ) -> "AttentionReader":
        """Load the bundled encoder, or one from a folder or a hub; a plain BERT gets mean pooling.

        device:  "cpu", "cuda", "cuda:1", "mps"; None = a working GPU, else the CPU
        deepest: the highest layer needed, from 1; None = all, and the MLM head if there is one

        Raises like `load_bert`, and BadInputError for a layer or device that does not exist.
        """
        return cls(load_bert(name_or_folder), choose_device(device), deepest=deepest)

    def read(
        self, text: str, pair: str | None = None, *, masked: Sequence[int] = (), words: int = 5
    ) -> TextAttention:
        """Run a text, or a pair, through all layers.

        masked: positions of tokens to mask; special tokens cannot be masked
        words:  number of predictions for each masked token

        The encoder's passage prompt is put before a single text, as for its vectors. Raises BadInputError for
        invalid Unicode, for a masked position without a token, and if there is no mask token.
        """
        encoding, tokens, notes = self._tokenized(text, pair)
        ids = self._masked_ids(encoding, tokens, masked)

        def work() -> TextAttention:
            with torch.inference_mode():
                output, mixed = self._run([ids], [encoding.type_ids], words=bool(masked) and self.has_words)
                found: tuple[tuple[Candidate, ...], ...] = ()
                if masked and self.has_words:
                    scores = output.logits[0, list(masked)]
                    found = likeliest(scores, self._bert.tokenizer, words)
                return TextAttention(
                    tokens=tuple(
                        InnerToken(
                            one.text, one.start, one.end, one.segment, one.special, place in set(masked)
                        )
                        for place, one in enumerate(tokens)
                    ),
                    attentions=_array(torch.stack(output.attentions)[:, 0]),
                    states=_array(torch.stack(output.hidden_states)[:, 0]),
                    contexts=_array(torch.stack(mixed)[:, 0]),
                    words=found,
                    notes=tuple(notes),
                )

        return self._in_turn(work, len(ids))

    def relevance(
        self, text: str, pair: str | None = None, *, query: str | None = None, masked: Sequence[int] = ()
    ) -> TokenRelevance:
        """Compute how relevant each token of `read(text, pair, masked=…)` is to vector and query."""
        encoding, tokens, _ = self._tokenized(text, pair)
        ids = self._masked_ids(encoding, tokens, masked)
        prompt_length = 0 if pair is not None else self._texts.prompt_length(self._prompts[TextKind.PASSAGE])
        return self._in_turn(lambda: self._relevance(ids, encoding.type_ids, prompt_length, query), len(ids))

    def _relevance(
        self, ids: list[int], segments: list[int], prompt_length: int, query: str | None
    ) -> TokenRelevance:
        aim, wanted = (None, None) if query is None else self._query(query)
        with torch.enable_grad():
            inputs: list[torch.Tensor] = []
            table = self._body.get_input_embeddings()
            hook = table.register_forward_hook(lambda *given: _leaf(given[2], inputs))
            try:
                output, _ = self._run([ids], [segments])
            finally:
                hook.remove()
            last = output.hidden_states[-1][0]
            vector = self._pooled.vector(last, prompt_length)
            if aim is None:
                score = vector @ (vector / vector.norm()).detach() / vector.norm().detach()
            else:
                score = torch.nn.functional.cosine_similarity(vector, aim, dim=0)
            score.backward()
            given, attentions = inputs[0], torch.stack(output.attentions)[:, 0].detach()
        if given.grad is None:
            raise BadInputError(f"{self.name} gives no gradient for its token embeddings")
        pooled = self._pooled.places(len(ids), prompt_length)
        rolled = rollout(_array(attentions))[-1]
        shares = self._pooled.shares(last, prompt_length)
        own = query_shares = None
        own_rest = query_rest = 0.0
        cosine = None if aim is None else float(score.detach())
        if shares is not None:
            own, own_rest = shares.tokens @ shares.total, float(shares.constant @ shares.total)
            if wanted is not None:
                query_shares, query_rest = shares.tokens @ wanted, float(shares.constant @ wanted)
                cosine = float(query_shares.sum() + query_rest)
        return TokenRelevance(
            vector=own,
            vector_rest=own_rest,
            query=query_shares,
            query_rest=query_rest,
            cosine=cosine,
            rollout=rolled[pooled].mean(axis=0),
            gradient=(given.grad * given.detach())[0].sum(dim=-1).double().cpu().numpy(),
            exact=self._pooled.exact,
            notes=self._pooled.notes,
        )

    def tokenizer(self, limit: int) -> TextTokenizer:
        """The tokenizer for passages, truncating at `limit` tokens."""
        return TextTokenizer(self._bert.tokenizer, min(limit, self.most_tokens))

    def layer(
        self, token_ids: Sequence[list[int]], number: int, take: Callable[[int, LayerStates], None]
    ) -> None:
        """Call `take` with one layer's states of each tokenized text and its index, in any order.

        number: the layer, from 1
        take:   called by several threads at once
        """
        self.check_layer(number)
        lengths = [len(ids) for ids in token_ids]

        def work(batch: NDArray[np.int64]) -> None:
            with torch.inference_mode():
                output, mixed = self._run([token_ids[place] for place in batch])
                states, attention = output.hidden_states[number], output.attentions[number - 1]
            for row, place in enumerate(batch):
                n = lengths[place]
                take(
                    int(place),
                    LayerStates(
                        _array(states[row, :n]),
                        _array(mixed[number - 1][row, :n]),
                        _array(attention[row, :, :n, :n]),
                    ),
                )

        batches = token_batches(lengths, token_budget=_BATCH_TOKENS, max_texts=512)
        with self._turn:
            if self._workers is not None:
                self._workers.run(work, batches)
            else:
                for batch in batches:
                    work(batch)

    def token(self, number: int) -> str:
        """The token of a number in the vocabulary."""
        return str(self._bert.tokenizer.id_to_token(number))

    def check_layer(self, number: int) -> None:
        """Raise BadInputError for a layer that does not exist."""
        _check_layer(number, self.layers, self.name)

    def divergence(self, other: "AttentionReader", texts: Sequence[str]) -> NDArray[np.float64]:
        """How much another encoder's attention differs on the same texts: (layers, heads), 0 to 1.

        The mean Jensen-Shannon divergence, in bits, of the attention rows. Raises BadInputError if the
        encoders have different heads or tokens.
        """
        if (self.layers, self.heads) != (other.layers, other.heads):
            raise BadInputError(
                f"{self.name} has {self.layers} layers of {self.heads} heads, and {other.name} "
                f"{other.layers} of {other.heads}. Compare an encoder with what it was trained from"
            )
        total = np.zeros((self.layers, self.heads))
        rows = 0
        for text in texts:
            one, two = self.read(text), other.read(text)
            if [token.text for token in one.tokens] != [token.text for token in two.tokens]:
                raise BadInputError(f"{self.name} and {other.name} cut {text[:60]!r} into other tokens")
            total += _jensen_shannon(one.attentions, two.attentions).sum(axis=-1)
            rows += len(one.tokens)
        return total / max(rows, 1)

    # The pass

    def _in_turn(self, work: Callable[[], _Found], tokens: int) -> _Found:
        """Call work when other threads are done; on one core for a text of so few tokens.

        Divided, its small products wait for whatever else runs. It goes to a thread that has one core: the
        number that torch takes in this one is also that of every thread that begins meanwhile.
        """
        with self._turn:
            if self._workers is None or tokens > _SHORT:
                return work()
            found: list[_Found] = []
            self._workers.run(lambda each: found.append(each()), [work])
            return found[0]

    def _run(
        self,
        token_ids: Sequence[list[int]],
        segments: Sequence[list[int]] | None = None,
        *,
        words: bool = False,
    ) -> tuple[Any, list[torch.Tensor]]:
        """The model's output, by its MLM head where `words` are wanted, and each mixer's input."""
        numbers, mask = padded([list(ids) for ids in token_ids], pad_id=self._pad)
        given = {"input_ids": torch.from_numpy(numbers), "attention_mask": torch.from_numpy(mask)}
        if segments is not None and self._takes_segments and self._bert.config.type_vocab_size > 1:
            given["token_type_ids"] = torch.tensor(segments)
        given = {name: tensor.to(self._device) for name, tensor in given.items()}
        self._passing.mixed = []
        model = self._model if words else self._body
        output = model(**given, output_attentions=True, output_hidden_states=True)
        return output, [
            tensor.reshape(*tensor.shape[:2], -1) for tensor in self._passing.__dict__.pop("mixed")
        ]

    def _tokenized(self, text: str, pair: str | None) -> tuple[Encoding, list[InnerToken], list[str]]:
        prompt = "" if pair is not None else self._prompts[TextKind.PASSAGE]
        texts = (prompt + text,) if pair is None else (text, pair)
        try:
            encoding, whole = self._cutting.encode(*texts), self._bert.tokenizer.encode(*texts)
        except TypeError as error:
            raise BadInputError(
                f"the text cannot be cut into tokens ({error}). It has to be whole Unicode text"
            ) from error
        tokens: list[InnerToken] = []
        segment = 0
        for word, (start, end), sequence in zip(
            encoding.tokens, encoding.offsets, encoding.sequence_ids, strict=True
        ):
            segment = segment if sequence is None else sequence  # the last [SEP] belongs to what it ends
            before = 0 if segment else len(prompt)
            own = sequence is not None and end > before
            place = (max(start - before, 0), end - before) if own else (0, 0)
            tokens.append(InnerToken(word, *place, segment, sequence is None))
        notes = []
        if (cut := len(whole.ids) - len(encoding.ids)) > 0:
            notes.append(
                f"{counted(cut, 'token')} at the end are cut off: {self.name} reads {self.most_tokens}"
            )
        if self._bert.max_tokens < len(encoding.ids):
            notes.append(
                f"for its vectors {self.name} reads only the first {self._bert.max_tokens} tokens; shares "
                "are of all that are shown"
            )
        return encoding, tokens, notes

    def _masked_ids(
        self, encoding: Encoding, tokens: Sequence[InnerToken], masked: Sequence[int]
    ) -> list[int]:
        ids = list(encoding.ids)
        for place in masked:
            if not 0 <= place < len(ids) or tokens[place].special:
                raise BadInputError(
                    f"token {place} cannot be masked: there are {len(ids)}, and special ones stay as they are"
                )
            if self._mask is None:
                raise BadInputError(f"the vocabulary of {self.name} has no mask, so no token can be masked")
            ids[place] = int(self._mask)
        return ids

    # The vector

    def _query(self, query: str) -> tuple[torch.Tensor, NDArray[np.float64] | None]:
        """The query's vector, (dimension,): pooled by torch, and of unit length as the sum of shares."""
        prompt = self._prompts[TextKind.QUERY]
        (encoding,) = self._texts.encodings([query], prompt)
        prompt_length = self._texts.prompt_length(prompt)
        with torch.no_grad():
            last = self._run([encoding.ids])[0].hidden_states[-1][0]
            vector = self._pooled.vector(last, prompt_length)
        shares = self._pooled.shares(last, prompt_length)
        return vector, None if shares is None else shares.total


def _jensen_shannon(one: Array, two: Array) -> NDArray[np.float64]:
    """Of rows that each sum to 1: (..., n) and (..., n) give (...), 0 to 1 bit.

    Lin 1991, https://doi.org/10.1109/18.61115
    """
    p, q = one.astype(np.float64), two.astype(np.float64)
    middle = (p + q) / 2

    gap: NDArray[np.float64] = (rel_entr(p, middle) + rel_entr(q, middle)).sum(axis=-1)
    return np.asarray(np.maximum(gap / (2 * np.log(2)), 0.0))


def _loaded(bert: BertFolder, deepest: int | None) -> tuple[PreTrainedModel, bool]:
    """The model with its MLM head where the folder has one, and whether it has."""
    if deepest is None:
        with_words = cast("type[PreTrainedModel]", MODEL_FOR_MASKED_LM_MAPPING[type(bert.config)])
        try:
            return load_model(bert, with_words, attn_implementation="eager"), True
        except BadInputError:  # the folder has no such head
            pass
    alone = cast("type[PreTrainedModel]", MODEL_MAPPING[type(bert.config)])
    layers = int(bert.config.num_hidden_layers)
    if deepest is not None:
        _check_layer(deepest, layers, bert.name)
    fewer = {} if deepest is None else {"num_hidden_layers": deepest}
    return load_model(bert, alone, fresh=("pooler",), attn_implementation="eager", **fewer), False


def _check_layer(number: int, layers: int, name: str) -> None:
    if not 1 <= number <= layers:
        raise BadInputError(f"there is no layer {number}: {name} has {layers}. Take 1 to {layers}")


def _leaf(states: torch.Tensor, kept: list[torch.Tensor]) -> torch.Tensor:
    kept.append(states.detach().requires_grad_())
    return kept[-1]


def _array(tensor: torch.Tensor) -> Array:
    return np.ascontiguousarray(tensor.float().cpu().numpy())
