"""Which rows a step takes: everything once, nothing twice, and the same again."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.mixing import ExampleMix, MixedBatch, Sampling
from nearsay.data.sentence_examples.normalised_text import normalised_text


def examples(*rows: tuple[str, ...]) -> SentenceExamples:
    kind = {1: ExampleKind.TEXTS, 2: ExampleKind.PAIRS}.get(len(rows[0]), ExampleKind.TUPLES)
    columns = tuple(f"column {number}" for number in range(len(rows[0])))
    return SentenceExamples("mine", kind, columns, rows, None)


def numbered(rows: int, name: str = "row") -> SentenceExamples:
    return examples(*((f"{name} {row}", f"answer {name} {row}") for row in range(rows)))


# few letters, so that rows share texts; upper case and full stops, so that spelling differs
WORDS = st.sampled_from(["a", "b", "c", "d", "e", "f", "A.", "b!", "G", "h", "i", "j", "k", "l", "m", "n"])
SETS = st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[WORDS] * width), min_size=1, max_size=60))


@settings(max_examples=150, deadline=None)
@given(
    sets=st.lists(SETS, min_size=1, max_size=3),
    sizes=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    distinct=st.lists(st.booleans(), min_size=3, max_size=3),
    seed=st.integers(0, 2**64),
    sampling=st.sampled_from(Sampling),
    epoch=st.integers(0, 3),
)
def test_every_epoch_takes_each_row_once_and_no_text_twice_where_that_is_wanted(
    sets: list[list[tuple[str, ...]]],
    sizes: list[int],
    distinct: list[bool],
    seed: int,
    sampling: Sampling,
    epoch: int,
) -> None:
    sources = [examples(*rows) for rows in sets]
    count = len(sources)
    mix = ExampleMix(sources, batch=sizes[:count], seed=seed, sampling=sampling, distinct=distinct[:count])
    taken: list[Counter[int]] = [Counter() for _ in sources]
    for step in range(epoch * mix.steps_per_epoch, (epoch + 1) * mix.steps_per_epoch):
        batch = mix.batch(step)
        assert 1 <= len(batch.rows) <= sizes[batch.source]
        taken[batch.source].update(batch.rows)
        if distinct[batch.source]:
            texts = [{normalised_text(t) for t in sets[batch.source][row]} for row in batch.rows]
            assert len(set().union(*texts)) == sum(map(len, texts))
    assert taken == [Counter(range(len(source))) for source in sources]


@settings(max_examples=50, deadline=None)
@given(steps=st.lists(st.integers(0, 60), min_size=1, max_size=12), seed=st.integers(0, 9))
def test_a_step_is_the_same_whatever_was_asked_before(steps: list[int], seed: int) -> None:
    rows = [(f"question {row // 3}", f"answer {row}") for row in range(31)]
    sources = [examples(*rows), numbered(17)]
    mixes = [ExampleMix(sources, batch=4, seed=seed, distinct=(True, False)) for _ in range(2)]
    backwards = {step: mixes[1].batch(step) for step in sorted(steps, reverse=True)}
    assert {step: mixes[0].batch(step) for step in steps} == backwards


def test_a_seed_s_batches_stay_what_they_are() -> None:
    """A run that is resumed goes on with the rows that it would have had."""
    rows = [(f"Q {row // 3}", f"a {row}.") for row in range(13)]
    mix = ExampleMix([examples(*rows)], batch=4, seed=1, distinct=[True])
    found = [mix.batch(step).rows for step in range(2 * mix.steps_per_epoch)]
    first = [(10, 2, 7, 3), (12, 0, 9), (6, 5, 1), (11, 4, 8)]
    assert found == [*first, (10, 3, 7), (0, 5, 9), (11, 12, 8, 1), (2, 6, 4)]
    assert examples(*rows).sha256.startswith("434d36d4604fdea6")


def test_epochs_and_seeds_differ() -> None:
    mix = ExampleMix([numbered(64)], batch=16, seed=1)
    other = ExampleMix([numbered(64)], batch=16, seed=2)
    first = [mix.batch(step).rows for step in range(4)]
    assert first != [mix.batch(step).rows for step in range(4, 8)]
    assert first != [other.batch(step).rows for step in range(4)]


def test_batches_are_equal_up_to_a_row_and_few_as_can_be() -> None:
    for rows, batch, sizes in [(100, 32, [25] * 4), (65, 32, [22, 22, 21]), (64, 32, [32, 32]), (1, 8, [1])]:
        mix = ExampleMix([numbered(rows)], batch=batch, seed=0)
        assert (
            sorted((len(mix.batch(step).rows) for step in range(mix.steps_per_epoch)), reverse=True) == sizes
        )
        assert mix.notes == ()


def test_a_text_in_many_rows_makes_more_batches_and_says_so() -> None:
    hub = [("hub", f"spoke {row}") for row in range(10)]
    mix = ExampleMix([examples(*hub, *numbered(20).texts)], batch=15, seed=0, distinct=[True])
    assert mix.batches == (10,)
    assert {len(mix.batch(step).rows) for step in range(10)} == {3}
    assert mix.notes == (Naming("mine", "10 rows", "30 rows", "10 batches", 3, 15),)


def test_a_text_met_in_another_column_or_spelling_counts() -> None:
    mix = ExampleMix([examples(("One.", "two"), ("three", "one"))], batch=2, seed=0, distinct=[True])
    assert [len(mix.batch(step).rows) for step in range(mix.steps_per_epoch)] == [1, 1]
    mix = ExampleMix([examples(("one", "One"), ("two", "three"))], batch=2, seed=0, distinct=[True])
    assert mix.steps_per_epoch == 1  # a row may hold a text twice itself


def test_rows_that_fit_together_exactly_one_way_are_found() -> None:
    """Every pair of 8 texts: 28 rows that 7 rounds of 4 just hold, which chance alone does not find."""
    rows = [(f"team {one}", f"team {two}") for two in range(8) for one in range(two)]
    mix = ExampleMix([examples(*rows)], batch=4, seed=0, distinct=[True])
    assert 7 <= mix.steps_per_epoch <= 9
    for epoch in range(20):
        steps = range(epoch * mix.steps_per_epoch, (epoch + 1) * mix.steps_per_epoch)
        assert sorted(row for step in steps for row in mix.batch(step).rows) == list(range(28))


def test_round_robin_takes_turns_until_a_set_is_used_up() -> None:
    sources = [numbered(4), numbered(8), numbered(2)]
    mix = ExampleMix(sources, batch=2, seed=0, sampling=Sampling.ROUND_ROBIN)
    assert mix.batches == (2, 4, 1)
    assert [mix.batch(step).source for step in range(14)] == [0, 1, 2, 0, 1, 1, 1] * 2


def test_proportional_turns_are_spread_over_the_epoch() -> None:
    mix = ExampleMix([numbered(300), numbered(100)], batch=1, seed=0)
    turns = np.array([mix.batch(step).source for step in range(400)])
    assert turns.sum() == 100
    # each quarter holds 25 of the 100 on average, with a standard deviation of 3.8
    assert all(10 <= quarter.sum() <= 40 for quarter in turns.reshape(4, 100))
    assert turns.tolist() != [mix.batch(step).source for step in range(400, 800)]


def test_rows_meet_in_every_batch_by_chance_alike() -> None:
    """Shared rows among them: no place in the epoch is theirs."""
    rows = [(f"q {row // 2}", f"a {row}") for row in range(20)] + list(numbered(20).texts)
    places = Counter[int]()
    for seed in range(200):
        mix = ExampleMix([examples(*rows)], batch=10, seed=seed, distinct=[True])
        places.update(step for step in range(4) for row in mix.batch(step).rows if row < 20)
    # 4,000 shared rows over 4 batches: 1,000 in each, with a standard deviation below 28
    assert max(abs(count - 1000) for count in places.values()) < 140


def test_a_batch_is_its_source_and_rows() -> None:
    assert ExampleMix([numbered(1)], batch=5, seed=0).batch(7) == MixedBatch(0, (0,))


def test_what_cannot_be_mixed_says_why() -> None:
    with pytest.raises(BadInputError, match="no set"):
        ExampleMix([], batch=2, seed=0)
    with pytest.raises(BadInputError, match=r"mine.*no examples"):
        ExampleMix([numbered(3).select([])], batch=2, seed=0)
    with pytest.raises(BadInputError, match="1 sets, 2 batch sizes and 1 choices"):
        ExampleMix([numbered(3)], batch=[1, 2], seed=0)
    with pytest.raises(BadInputError, match="batch is 0 "):
        ExampleMix([numbered(3)], batch=0, seed=0)
    with pytest.raises(BadInputError, match="seed is -1"):
        ExampleMix([numbered(3)], batch=1, seed=-1)
    with pytest.raises(BadInputError, match="step is -1"):
        ExampleMix([numbered(3)], batch=1, seed=0).batch(-1)
