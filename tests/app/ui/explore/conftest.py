"""A library to explore: the sample documents in clusters and on a map, and notes that say things twice."""

import shutil
from pathlib import Path

import pytest

from nearsay.app.ui.settings import Settings
from nearsay.indexer import Library

_NOTES = (
    {
        "id": "kettle",
        "title": "Descaling a kettle",
        "text": "Fill the kettle with equal parts of white vinegar and water, boil it once, let it stand for "
        "an hour and rinse it twice before the next tea.",
        "source": "kitchen",
        "year": 2021,
    },
    {
        "id": "the-kettle",
        "title": "Descaling the kettle",
        "text": "Fill the kettle with equal parts of white vinegar and water, boil it once, leave it "
        "standing for one hour and rinse it three times before the next tea.",
        "author": "M. Vale",
        "year": 2022,
    },
    {
        "id": "board",
        "title": "Waxing a board",
        "text": "Rub warm beeswax into the dry chopping board, wait a night and polish it with a cloth.",
        "year": 2020,
    },
    {
        "id": "chopping-board",
        "title": "Waxing a chopping board",
        "text": "Rub warm beeswax into the dry chopping board, wait overnight and polish it with a cloth.",
        "year": 2020,
    },
    {
        "id": "chisel",
        "title": "=Sharpening <b>chisels</b>",
        "text": "Flatten the back first, then hone the bevel at thirty degrees on a fine stone.",
        "year": 2019,
    },
)


@pytest.fixture(scope="session")
def explored_library(made_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample documents with clusters and a map, beside a collection 'notes' without; never written to."""
    home = Path(shutil.copytree(made_library, tmp_path_factory.mktemp("explored") / "library"))
    with Library.open(home, device="cpu") as library:
        library.collection("notes").add_rows(_NOTES)
        explorer = library.collection("samples").explore
        explorer.cluster()
        explorer.map()
    return home


@pytest.fixture
def explored(explored_library: Path, tmp_path: Path) -> Settings:
    """The page's settings over a copy of it that a test may change."""
    home = shutil.copytree(explored_library, tmp_path / "explored")
    return Settings(library=str(home), device="cpu")


@pytest.fixture
def read_only(explored: Settings) -> Settings:
    """The same for a page that only reads."""
    return Settings(library=explored.library, device="cpu", read_only=True)
