"""Which faults are kept to be told."""

from nearsay.data.faults import Fault, KeptFaults, spread


def test_files_that_cannot_be_read_are_kept_after_any_number_of_others() -> None:
    faults = KeptFaults()
    for number in range(300):
        for line in range(1, 30):
            faults.take(Fault(f"{number}.csv", line, "bad"))
    faults.take(Fault("0.csv", None, "cut off"))
    for number in range(150):
        faults.take(Fault(f"{number}.pdf", None, "damaged"))
    whole = [fault.source for fault in faults.kept if fault.line is None]
    assert whole == ["0.csv", *(f"{number}.pdf" for number in range(100))]
    assert len({fault.source for fault in faults.kept}) == 200
    assert faults.kept_counts["0.csv"] == 30
    assert faults.counts.total() == 300 * 29 + 151
    assert len([fault for fault in faults.kept if fault.source == "0.csv"]) == 10


def test_a_few_faults_are_spread_over_the_files() -> None:
    faults = [Fault("a", 1, ""), Fault("a", 2, ""), Fault("a", None, ""), Fault("b", 7, "")]
    assert [(fault.source, fault.line) for fault in spread(faults, 3)] == [("a", None), ("a", 1), ("b", 7)]
    assert [fault.source for fault in spread(faults, 1)] == ["a"]
