"""A training from its form to its end, in a browser."""

import pytest


@pytest.mark.long
def test_a_vocabulary_is_made_watched_and_found_again(visitor, library_folder):
    visitor.goes_to("training?train=Vocabulary")
    visitor.presses("Samples")
    visitor.sees("The first texts")
    visitor.types("Name", "from-a-form", enter=False)
    visitor.presses("Train the vocabulary")
    visitor.sees("Vocabulary from-a-form")
    visitor.sees("Done in")  # without anybody's doing
    assert (library_folder / "vocabularies" / "from-a-form" / "tokenizer.json").is_file()
    visitor.goes_to("jobs")
    visitor.sees("Vocabulary from-a-form")
    visitor.sees("done")
    visitor.goes_to("training?train=BERT")
    offered = "document.querySelector('input[aria-label*=Vocabulary]')"  # what the form now begins with
    visitor.finds(f"{offered}.value.startsWith('from')")


@pytest.mark.long
def test_what_was_unfolded_stays_so_when_other_data_are_chosen(visitor):
    visitor.goes_to("training")
    visitor.unfolds("Settings of the loss")
    visitor.presses("Samples")
    visitor.sees("248 rows")
    visitor.is_still()
    opened = (
        "[...document.querySelectorAll('details[open]')].some(one => one.innerText.includes('of the loss'))"
    )
    assert visitor.finds(opened) is True
    visitor.sees("Scale")  # of the loss that such data are usually learned with
