"""What a search promises, as people write it."""

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.data.errors import BadInputError
from nearsay.indexer.plans.plan import RecallContract, memory_bytes, memory_text


@pytest.mark.parametrize(
    ("recall", "memory", "expected"),
    [
        (None, None, RecallContract(0.95, 10, None)),
        ("0.95@10", "2GB", RecallContract(0.95, 10, 2_000_000_000)),
        ("0.9@5", "512MB", RecallContract(0.9, 5, 512_000_000)),
        ("99%@100", "1GiB", RecallContract(0.99, 100, 2**30)),
        (".8", "1.5 kb", RecallContract(0.8, 10, 1500)),
        (0.7, 4096, RecallContract(0.7, 10, 4096)),
        ("1 @ 1", "none", RecallContract(1.0, 1, None)),
        ("0.95@10", "3g", RecallContract(0.95, 10, 3_000_000_000)),
    ],
)
def test_a_contract_is_read_as_people_write_it(
    recall: str | float | None, memory: str | int | None, expected: RecallContract
) -> None:
    assert RecallContract.parse(recall, memory) == expected


@pytest.mark.parametrize(
    ("recall", "memory", "message"),
    [
        ("much", None, r"'much' is no recall.*as in 0\.95@10$"),
        ("0.95@", None, "'0.95@' is no recall"),
        ("0.95@ten", None, "'0.95@ten' is no recall"),
        ("0.95@" + "9" * 5000, None, "is no recall"),
        ("-0.5@10", None, "'-0.5@10' is no recall"),
        ("95@10", None, r"recall of 95\.0"),
        ("0@10", None, r"recall of 0\.0"),
        ("0.95@0", None, "0 passages.*1 to 100"),
        ("0.95@1000", None, "measured at 1000 passages"),
        (None, "lots", "'lots' .*2GB"),
        (None, "2 pounds", "no amount of memory"),
        (None, "-1", "no amount of memory"),
        (None, "9" * 400, "no amount of memory"),
        (None, "0", "0 bytes"),
    ],
)
def test_what_is_no_contract_is_refused_with_the_remedy(
    recall: str | None, memory: str | None, message: str
) -> None:
    with pytest.raises(BadInputError, match=message):
        RecallContract.parse(recall, memory)


def test_what_is_not_said_stays_as_it_was() -> None:
    contract = RecallContract(0.9, 5, 1000)
    assert contract.changed() == contract
    assert contract.changed("0.8") == RecallContract(0.8, 5, 1000)
    assert contract.changed(memory="2KB") == RecallContract(0.9, 5, 2000)
    assert contract.changed("0.7@3", "none") == RecallContract(0.7, 3, None)


def test_a_contract_reads_as_it_is_given() -> None:
    assert str(RecallContract()) == "recall 0.95@10"
    assert str(RecallContract(0.9, 5, 2_000_000_000)) == "recall 0.9@5 within 2 GB"


@given(
    st.builds(
        RecallContract,
        st.floats(0.001, 1.0),
        st.integers(1, 100),
        st.none() | st.integers(1, 2**50),
    )
)
def test_every_contract_is_a_round_trip_through_json(contract: RecallContract) -> None:
    assert RecallContract.from_json(json.loads(json.dumps(asdict(contract)))) == contract


@given(st.text(max_size=12))
def test_any_text_is_an_amount_or_refused(text: str) -> None:
    try:
        count = memory_bytes(text)
    except BadInputError:
        return
    assert count is None or count >= 0


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1 KB"),
        (1_500_000, "1.5 MB"),
        (999_499_999, "999 MB"),
        (999_500_001, "1 GB"),
        (2_000_000_000, "2 GB"),
    ],
)
def test_bytes_are_written_as_people_read_them(count: int, text: str) -> None:
    assert memory_text(count) == text
