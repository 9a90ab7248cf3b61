"""One kind of examples made into another, worked out by hand."""

from collections.abc import Callable

import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.conversion import as_pairs, as_texts, as_tuples, same_class_pairs
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import NLI_LABELS, SentenceExamples

Rows = list[tuple[str, ...]]
CODE = {"E": 0.0, "N": 1.0, "C": 2.0}


def nli(*rows: tuple[str, str, str]) -> SentenceExamples:
    texts = tuple((premise, hypothesis) for premise, hypothesis, _ in rows)
    labels = tuple(CODE[label] for _, _, label in rows)
    return SentenceExamples("nli", ExampleKind.NLI, ("premise", "hypothesis"), texts, labels, NLI_LABELS)


def pairs_with(kind: ExampleKind, *labels: float) -> SentenceExamples:
    texts = tuple((f"a{row}", f"b{row}") for row in range(len(labels)))
    return SentenceExamples("set", kind, ("one", "two"), texts, labels, (), ("read",))


TRIPLES = SentenceExamples(
    "tri", ExampleKind.TUPLES, ("a", "p", "n"), (("x", "y", "z"), ("x", "y", "w"), ("z", "y", "x")), None
)
TEXTS = SentenceExamples("lines", ExampleKind.TEXTS, ("text",), (("x",), ("y",)), None)


def test_nli_gives_triplets_of_premises_with_both_and_uses_every_hypothesis() -> None:
    found = as_tuples(
        nli(
            ("p", "e1", "E"),
            ("only entailed", "e", "E"),
            ("p", "c1", "C"),
            ("p", "n", "N"),
            ("p", "c2", "C"),
            ("q", "c", "C"),
            ("q", "e1", "E"),
            ("p", "c3", "C"),
            ("p", "e2", "E"),
            ("only contradicted", "c", "C"),
            ("neither", "n", "N"),
        )
    )
    assert found.kind is ExampleKind.TUPLES
    assert found.columns == ("premise", "entailed", "contradicted")
    assert found.texts == (("p", "e1", "c1"), ("p", "e2", "c2"), ("p", "e1", "c3"), ("q", "e1", "c"))
    assert found.notes == (Naming("nli", "4 triplets", "2 premises"),)
    assert (found.labels, found.label_names) == (None, ())


def test_a_hypothesis_both_entailed_and_contradicted_makes_no_triplet() -> None:
    found = as_tuples(nli(("p", "It rains.", "E"), ("p", "it rains", "C"), ("q", "e", "E"), ("q", "c", "C")))
    assert found.texts == (("q", "e", "c"),)
    assert found.notes[1] == Naming("nli", "1 triplet", "left out")


def test_pairs_are_what_belongs_together() -> None:
    assert as_pairs(nli(("p", "e", "E"), ("p", "n", "N"), ("p", "c", "C"))).texts == (("p", "e"),)
    labelled = pairs_with(ExampleKind.LABELLED, 1, 0, 1)
    assert as_pairs(labelled).texts == (("a0", "b0"), ("a2", "b2"))
    assert as_pairs(labelled).notes == ("read", Naming("set", "2 pairs", 1, "3 rows"))
    assert as_tuples(labelled) == as_pairs(labelled)
    assert as_pairs(TRIPLES).texts == (("x", "y"), ("z", "y"))
    assert as_pairs(TRIPLES).columns == ("a", "p")


def test_what_is_right_already_stays_the_same() -> None:
    assert as_tuples(TRIPLES) is TRIPLES
    pairs = as_pairs(TRIPLES)
    assert as_pairs(pairs) is pairs
    assert as_tuples(pairs) is pairs
    assert as_texts(TEXTS) is TEXTS


def test_every_text_comes_once_in_order() -> None:
    found = as_texts(TRIPLES)
    assert found.texts == (("x",), ("y",), ("z",), ("w",))
    assert (found.kind, found.columns) == (ExampleKind.TEXTS, ("text",))
    assert found.notes == (Naming("tri", 4, "3 rows"),)


def test_what_makes_no_pairs_says_what_to_do() -> None:
    with pytest.raises(BadInputError, match=r"no premise.*both.*objective.*nli"):
        as_tuples(nli(("p", "e", "E"), ("q", "c", "C")))
    with pytest.raises(BadInputError, match=r"scored pairs.*1 to 4\.5.*high score"):
        as_tuples(pairs_with(ExampleKind.SCORED, 4.5, 1))
    with pytest.raises(BadInputError, match="holds no pairs labelled 1"):
        as_pairs(pairs_with(ExampleKind.LABELLED, 0))
    with pytest.raises(BadInputError, match=r"single texts.*objective"):
        as_tuples(TEXTS)


@pytest.mark.parametrize("convert", [as_pairs, as_tuples, as_texts])
def test_the_texts_stay_in_the_file_where_they_are(
    convert: Callable[[SentenceExamples], SentenceExamples],
) -> None:
    examples = nli(("a", "b", "E"), ("a", "c", "C"), ("a", "d", "N"))
    assert convert(examples).texts.texts is examples.texts.texts


def of_classes(*classes: str) -> SentenceExamples:
    names = tuple(sorted(set(classes)))
    texts = [(f"{name}{row}",) for row, name in enumerate(classes)]
    labels = [float(names.index(name)) for name in classes]
    return SentenceExamples("set", ExampleKind.CLASSES, ("text",), texts, labels, names)


def test_classes_give_triplets_of_a_text_another_of_its_class_and_one_of_another() -> None:
    given = of_classes(*"abcab" * 6, "d")
    found = as_tuples(given)
    assert found.kind is ExampleKind.TUPLES
    assert [anchor for anchor, _, _ in found.texts] == [text for (text,) in given.texts if text != "d30"]
    assert all(anchor[0] == positive[0] != negative[0] for anchor, positive, negative in found.texts)
    assert all(anchor != positive for anchor, positive, _ in found.texts)
    assert len({positive for _, positive, _ in found.texts}) == 30
    assert {negative[0] for _, _, negative in found.texts} == set("abcd")
    assert found.notes == (Naming("set", "30 triplets", "4 classes"), Naming("1 class", "negatives"))
    assert as_tuples(given).texts == found.texts


def test_classes_in_pairs_have_every_text_beside_another_of_its_class() -> None:
    given = of_classes(*"abcab" * 3, "d")
    found = same_class_pairs(given)
    assert found.kind is ExampleKind.CLASSES
    assert [first for first, _ in found.texts] == [text for (text,) in given.texts]
    assert all(first[0] == second[0] and (first != second or first == "d15") for first, second in found.texts)
    assert found.labels is not None
    assert found.labels.tolist() == ["abcd".index(first[0]) for first, _ in found.texts]
    assert found.sha256 != given.sha256


def test_a_text_of_several_classes_is_no_negative_of_itself_and_is_counted() -> None:
    texts = [("x",), ("X.",), *((f"{name}{row}",) for row in range(4) for name in "pq")]
    labels = [0.0, 1.0, *[0.0, 1.0] * 4]
    given = SentenceExamples("set", ExampleKind.CLASSES, ("text",), texts, labels, ("p", "q"))
    assert not any(anchor[0].lower() == negative[0].lower() for anchor, _, negative in as_tuples(given).texts)
    same = SentenceExamples(
        "set", ExampleKind.CLASSES, ("text",), [*texts[2:], ("x",), ("x",)], labels, ("p", "q")
    )
    assert same_class_pairs(same).notes == (Naming("1 row", "several classes"),)
    assert same_class_pairs(same_class_pairs(same)).texts == same_class_pairs(same).texts


@pytest.mark.parametrize("classes", ["aaa", "abc"])
def test_one_class_and_classes_of_one_text_make_no_triplets(classes: str) -> None:
    with pytest.raises(BadInputError, match=r"3 texts of . class.*kind texts"):
        as_tuples(of_classes(*classes))


def test_texts_of_classes_are_texts_and_make_no_pairs() -> None:
    assert as_texts(of_classes("a", "b", "b")).texts == (("a0",), ("b1",), ("b2",))
    with pytest.raises(BadInputError, match="single texts"):
        as_pairs(of_classes("a", "b", "b"))
