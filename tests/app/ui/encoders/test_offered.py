"""The choice of an encoder."""

import shutil

from nearsay.app.ui.offered import offered
from nearsay.app.ui.settings import Settings
from nearsay.app.ui.visit import Visit
from nearsay.indexer import Library
from nearsay.indexer.encoders import note_made
from nearsay.training.sentence.bundled import BUNDLED_NAME


def test_encoders_and_berts_are_offered_once_the_bundled_one_first(made_encoder, made_bert, settings):
    with Library.open(settings.library) as library:
        visit = Visit(settings, library, "samples")
        assert list(offered(visit)) == [BUNDLED_NAME, str(made_encoder)]
        assert list(offered(visit, berts=True)) == [BUNDLED_NAME, str(made_encoder), str(made_bert)]
        assert list(offered(visit, without=BUNDLED_NAME)) == [str(made_encoder)]
        labels = offered(visit, berts=True)
        assert labels[BUNDLED_NAME].startswith(BUNDLED_NAME)
        assert "1 layers, width 32" in labels[str(made_bert)]


def test_no_place_on_the_server_stands_in_a_label_where_the_page_only_reads(made_encoder, settings):
    with Library.open(settings.library) as library:
        other = made_encoder.parent.parent / "elsewhere" / "mine"
        other.parent.mkdir()
        made_encoder.rename(other)

        note_made(library.store.folder, other)
        other.parent.joinpath("twin").mkdir()
        twin = other.parent / "twin" / "mine"

        shutil.copytree(other, twin)
        note_made(library.store.folder, twin)
        visit = Visit(Settings(library=settings.library, read_only=True), library, "samples")
        labels = list(offered(visit, berts=True).values())
        assert len(set(labels)) == 3
        assert not any(str(other.parent) in label for label in labels)
        mine = list(offered(Visit(settings, library, "samples")).values())
        assert any(str(other) in label for label in mine)
