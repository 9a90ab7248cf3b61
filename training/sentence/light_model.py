"""A pooled encoder of BERT's family, or a static one, for few texts: ONNX Runtime and numpy, in float32.

torch, transformers and sentence-transformers take seconds to import; a question of fifteen tokens takes
four milliseconds here.
"""

import ctypes
import math
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from nearsay.data.errors import first_line
from nearsay.data.threads import usable_threads
from nearsay.training.encoder.folder import UnsupportedEncoderError
from nearsay.training.encoder.plain_encoder import (
    Array,
    DenseStep,
    LayerWeights,
    LinearWeights,
    NormWeights,
    PlainEncoder,
    PlainTransformer,
    relative_bias,
)
from nearsay.training.encoder.weights import StoredTensor

_OPSET = 23  # the version of ONNX's operators: the first with attention
_IR_VERSION = 11  # of the file format, the first with these operators
_MOST_THREADS = 4  # for one text, whose products are small
_AXIS = helper.make_tensor("first", TensorProto.INT64, [1], [0])
_FORMATS = {"F32": TensorProto.FLOAT, "F16": TensorProto.FLOAT16, "BF16": TensorProto.BFLOAT16}
_LEAST_LENGTH = 1e-12  # what sentence-transformers' Normalize divides a vector by at least


class LightModel:
    """Computes vectors from token numbers, in float32. Thread-safe."""

    def __init__(self, plain: PlainEncoder) -> None:
        """Read the layers' weights into memory; UnsupportedEncoderError where its parts do not fit."""
        self._body = _Transformer(plain.transformer) if plain.transformer else _Table(plain.words)
        self._modes = plain.modes
        self._include_prompt = plain.include_prompt
        self._steps = plain.steps
        self._truncate = plain.truncate
        try:
            self.vectors([[0]])
        except ValueError as error:
            reason = f"its modules do not fit each other: {first_line(error)}"
            raise UnsupportedEncoderError(reason) from error

    def vectors(self, token_ids: Sequence[Sequence[int]], *, prompt_length: int = 0) -> Array:
        """Compute the texts' vectors, (texts, dimension).

        token_ids:     of each text, with special tokens; for a transformer at least one each
        prompt_length: number of leading tokens that are the prompt, for a pooling that excludes them
        """
        prompt = 0 if self._include_prompt else prompt_length
        pooled = np.stack([_pooled(self._body(ids), self._modes, prompt) for ids in token_ids])
        for step in self._steps:
            pooled = _after_pooling(step, pooled)
        return np.ascontiguousarray(pooled[:, : self._truncate], dtype=np.float32)

    def token_states(self, token_ids: Sequence[Sequence[int]]) -> list[Array]:
        """Each text's token vectors as the pooling gets them, (tokens, width)."""
        return [self._body(ids) for ids in token_ids]


class _Table:
    """A static encoder's tokens, looked up."""

    def __init__(self, words: Array) -> None:
        self._words = words
        self._blank = int(words.any(axis=1).argmax())  # for a text without tokens: the first that is not zero

    def __call__(self, ids: Sequence[int]) -> Array:
        states: Array = self._words[np.asarray(ids or [self._blank])]
        return states


class _Transformer:
    """BERT's family: the embeddings are summed here, and ONNX Runtime runs the layers.

    One text at a time: its vector does not depend on what is asked beside it.
    """

    def __init__(self, plain: PlainTransformer) -> None:
        self._words = plain.words
        self._positions = plain.positions
        self._padding = plain.padding
        self._distances = plain.distances
        try:
            self._session = _session(plain)
            self([0])
        except UnsupportedEncoderError:
            raise
        except Exception as error:  # a shape that does not fit, a path that it cannot take: torch tells more
            raise UnsupportedEncoderError(f"ONNX Runtime does not run it: {first_line(error)}") from error

    def __call__(self, ids: Sequence[int]) -> Array:
        inputs = {"embeddings": self._words[np.asarray(ids)] + self._positions[self._places(ids)]}
        if self._distances is not None:
            inputs["bias"] = relative_bias(self._distances, len(ids))[None]
        states: Array = self._session.run(None, inputs)[0]
        return states

    def _places(self, ids: Sequence[int]) -> NDArray[np.int64]:
        if self._padding is None:
            return np.arange(len(ids))
        real = np.asarray(ids) != self._padding
        places: NDArray[np.int64] = np.cumsum(real) * real + self._padding
        return places


def _session(plain: PlainTransformer) -> onnxruntime.InferenceSession:
    """Return what takes sums of embeddings, (tokens, width), and gives the last layer's states."""
    layers = _Layers(plain)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = min(usable_threads(), _MOST_THREADS)
    # Else its threads compute while they wait: held to one core, a query took twice as long.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(layers.folder)
    )
    options.log_severity_level = 3  # errors, which are raised as well
    session = onnxruntime.InferenceSession(layers.serialized(), options, providers=["CPUExecutionProvider"])
    _SESSIONS.add(session)
    return session


_SESSIONS: "weakref.WeakSet[onnxruntime.InferenceSession]" = weakref.WeakSet()


def _never_end() -> None:
    """After a fork, in the new process: whoever ends a session waits for its threads, which are not there."""
    for session in _SESSIONS:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_never_end)


class _Layers:
    """The layers as an ONNX graph, which refers to the matrices in the encoder's own files.

    ONNX Runtime reads each from there into the order that it multiplies by, and keeps nothing of the file.
    """

    def __init__(self, plain: PlainTransformer) -> None:
        self.folder: Path | None = None
        self._plain = plain
        self._nodes: list[NodeProto] = []
        self._weights = [_AXIS]
        states = self._norm("embeddings", plain.norm)
        if plain.project is not None:
            states = self._linear(states, plain.project)
        for layer in plain.layers():
            states = self._layer(states, layer)
        self._output = states

    def serialized(self) -> bytes:
        """Return the model file's bytes."""
        inputs: dict[str, tuple[int | str, ...]] = {"embeddings": ("tokens", self._plain.words.shape[1])}
        if self._plain.distances is not None:
            inputs["bias"] = (1, self._plain.heads, "tokens", "tokens")
        declared = helper.make_tensor_value_info
        graph = helper.make_graph(
            self._nodes,
            "layers",
            [declared(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [declared(self._output, TensorProto.FLOAT, ("tokens", self._plain.width))],
            self._weights,
        )
        operators = [helper.make_opsetid("", _OPSET)]
        serialized: bytes = helper.make_model(
            graph, opset_imports=operators, ir_version=_IR_VERSION
        ).SerializeToString()
        return serialized

    def _layer(self, states: str, layer: LayerWeights) -> str:
        """Devlin et al. 2019, section 3, https://arxiv.org/abs/1810.04805."""
        mixed = [
            self._node("Unsqueeze", self._linear(states, part), _AXIS.name)
            for part in (layer.query, layer.key, layer.value)
        ]
        bias = [] if self._plain.distances is None else ["bias"]
        heads = self._plain.heads
        seen = self._node("Attention", *mixed, *bias, q_num_heads=heads, kv_num_heads=heads)
        attended = self._linear(self._node("Squeeze", seen, _AXIS.name), layer.attended)
        states = self._norm(self._node("Add", attended, states), layer.attended_norm)
        kind, settings = _ACTIVATIONS[self._plain.activation]
        narrow = self._linear(self._node(kind, self._linear(states, layer.up), **settings), layer.down)
        return self._norm(self._node("Add", narrow, states), layer.norm)

    def _linear(self, inputs: str, linear: LinearWeights) -> str:
        parts = [self._matrix(linear.weight)]
        if linear.bias is not None:
            parts.append(self._vector(linear.bias))
        return self._node("Gemm", inputs, *parts, transB=1)

    def _norm(self, inputs: str, norm: NormWeights) -> str:
        """Ba et al. 2016, https://arxiv.org/abs/1607.06450."""
        parts = self._vector(norm.weight), self._vector(norm.bias)
        return self._node("LayerNormalization", inputs, *parts, epsilon=norm.epsilon)

    def _vector(self, stored: StoredTensor) -> str:
        self._weights.append(numpy_helper.from_array(stored.read(), f"weight {len(self._weights)}"))
        return str(self._weights[-1].name)

    def _matrix(self, stored: StoredTensor) -> str:
        file, nbytes = stored.file.resolve(), stored.nbytes  # a hub's files are links
        if self.folder not in (None, file.parent):
            raise UnsupportedEncoderError(f"its weights lie in {self.folder} and {file.parent}")
        self.folder = file.parent  # the one that ONNX Runtime is told
        kind = _FORMATS[stored.dtype]
        matrix = TensorProto(name=f"weight {len(self._weights)}", data_type=kind, dims=stored.shape)
        matrix.data_location = TensorProto.EXTERNAL
        for key, value in (("location", file.name), ("offset", stored.start), ("length", nbytes)):
            matrix.external_data.add(key=key, value=str(value))
        self._weights.append(matrix)
        name = str(matrix.name)
        return name if kind == TensorProto.FLOAT else self._node("Cast", name, to=TensorProto.FLOAT)

    def _node(self, kind: str, *inputs: str, **settings: object) -> str:
        output = f"state {len(self._nodes)}"
        node = helper.make_node(kind, inputs, [output], **settings)  # type: ignore[arg-type]  # attributes
        self._nodes.append(node)
        return output


# GELU: Hendrycks & Gimpel 2016, https://arxiv.org/abs/1606.08415
_ACTIVATIONS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "gelu": ("Gelu", {"approximate": "none"}),
    "gelu_new": ("Gelu", {"approximate": "tanh"}),
    "gelu_pytorch_tanh": ("Gelu", {"approximate": "tanh"}),
    "relu": ("Relu", {}),
}


# After the last layer


def _pooled(states: Array, modes: Sequence[str], prompt: int) -> Array:
    """From one text's token states to its vector; Reimers & Gurevych 2019, section 3."""
    pooled = states[prompt:]
    if not len(pooled):
        raise UnsupportedEncoderError("a text has no tokens beside its prompt")
    parts: Mapping[str, Callable[[], Array]] = {
        "cls": lambda: pooled[0],
        "max": lambda: pooled.max(axis=0),
        "mean": lambda: pooled.mean(axis=0),
        "mean_sqrt_len_tokens": lambda: pooled.sum(axis=0) / np.float32(math.sqrt(len(pooled))),
    }
    return np.concatenate([parts[mode]() for mode in modes])


def _after_pooling(step: DenseStep | None, vectors: Array) -> Array:
    if step is None:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Array = vectors / np.maximum(lengths, np.float32(_LEAST_LENGTH))
        return unit
    through = vectors @ step.weight.T
    if step.bias is not None:
        through = through + step.bias
    return np.tanh(through) if step.tanh else through
