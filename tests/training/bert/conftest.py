"""A vocabulary and a text for pretraining tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nearsay.data import samples
from nearsay.data.pretraining.example_config import ExampleConfig
from nearsay.data.reading import read
from nearsay.training.bert.pretrain import Pretraining
from nearsay.training.bert.sizes import BertSize
from nearsay.training.bert.vocabulary import VocabularyConfig, train_vocabulary
from nearsay.training.bert.vocabulary_folder import save_vocabulary
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.optimisation import Optimisation


@pytest.fixture(scope="session")
def corpus() -> str:
    """The sample corpus: short documents of some sentences."""
    return str(samples.folder() / "corpus.jsonl")


@pytest.fixture(scope="session")
def vocabulary(tmp_path_factory: pytest.TempPathFactory, corpus: str) -> str:
    """Six hundred pieces of the sample corpus."""
    folder = tmp_path_factory.mktemp("vocabularies") / "samples"
    texts = (document.text for document in read([corpus]) if hasattr(document, "text"))
    save_vocabulary(train_vocabulary(texts, VocabularyConfig(600)), folder)
    return str(folder)


@pytest.fixture
def pretraining(corpus: str, vocabulary: str, tmp_path: Path) -> Callable[..., Pretraining]:
    """Makes a small run's choices; `steps` and what else is given replace the usual."""

    def make(steps: int | None = 6, **choices: object) -> Pretraining:
        optimisation = choices.pop("optimisation", {})
        usual: dict[str, object] = {
            "texts": (corpus,),
            "vocabulary": vocabulary,
            "size": BertSize(1, 32, heads=2, positions=64),
            "examples": ExampleConfig(length=32),
            "batch": 8,
            "long_length": 64,
            "long_share": 0.34,
            "prepared": str(tmp_path / "prepared"),
            "optimisation": Optimisation(
                **{  # type: ignore[arg-type]  # the test's own names
                    "steps": steps,
                    "precision": Precision.FLOAT32,
                    "log_every": 1,
                    "learning_rate": 1e-3,
                    "checkpoint_minutes": 0,
                    **optimisation,  # type: ignore[dict-item]  # a test gives a dict
                }
            ),
        }
        return Pretraining(**{**usual, **choices})  # type: ignore[arg-type]  # the test's own names

    return make
