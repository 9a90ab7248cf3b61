"""Folders of trained heads: loading them, and saving them so that other libraries load them too."""

import shutil
from pathlib import Path

from nearsay.data.errors import BadInputError
from nearsay.training.bert.bert_folder import BertFolder, load_bert, load_model
from nearsay.training.bert.heads.network import HeadKind, HeadNetwork
from nearsay.training.encoder.precision import Precision, narrow_linear_weights

__all__ = ["copy_encoder", "load_saved_network", "save_network"]

_NOT_COPIED = ("*.py", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.onnx", "onnx", "openvino", ".*", "run")


def load_saved_network(
    folder: str | Path, kind: HeadKind, *, device: str, precision: Precision
) -> tuple[BertFolder, HeadNetwork]:
    """Load a head of transformers for asking; its encoder's matrices are stored in the precision.

    precision: a resolved one
    Raises as `load_bert` does, and BadInputError when the folder holds no head of this kind.
    """
    bert = load_bert(folder)
    wanted = kind.transformer_class
    if wanted.__name__ not in (bert.config.architectures or ()):
        there = ", ".join(bert.config.architectures or ()) or "no head"
        raise BadInputError(
            f"{folder} holds {there}, and a {kind} is a {wanted.__name__}. "
            f"Name the folder of one, or train it: nearsay train {kind} FILE --bert {folder} --out DIR"
        )
    network = HeadNetwork(load_model(bert, wanted))
    network.to(device)
    narrow_linear_weights(network.transformer.bert, precision)
    return bert, network.eval()


def save_network(network: HeadNetwork, bert: BertFolder, folder: Path) -> None:
    """Write a network into a folder as transformers does: config.json, safetensors and the tokenizer."""
    network.transformer.save_pretrained(folder)
    bert.pretrained_tokenizer.save_pretrained(folder)


def copy_encoder(source: Path, folder: Path) -> None:
    """Copy an encoder's folder, without code, pickles, other runtimes' copies and its training run."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns(*_NOT_COPIED), dirs_exist_ok=True)
