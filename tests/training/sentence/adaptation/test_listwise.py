"""The listwise lesson and its teacher."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import entropy

from nearsay.training.evaluation.proxies.bm25 import Bm25
from nearsay.training.sentence.adaptation.listwise import HybridTeacher, drift, listwise_divergence
from nearsay.training.sentence.adaptation.pseudo_queries import PseudoQuery, QueryKind


def test_the_divergence_of_two_passages_is_what_the_hand_gives() -> None:
    # p = (3/4, 1/4), q = (1/2, 1/2): 3/4 ln(3/2) + 1/4 ln(1/2)
    found = listwise_divergence(torch.tensor([[0.0, 0.0]]), torch.tensor([[math.log(3), 0.0]]), 1.0)
    assert found.item() == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5), abs=1e-6)


def test_the_divergence_is_scipys_entropy_at_any_temperature() -> None:
    random = np.random.default_rng(0)
    student, teacher = random.normal(size=(2, 5, 7))
    exponents = [np.exp(scores / 0.3) for scores in (teacher, student)]
    expected = np.mean([entropy(p, q) for p, q in zip(*exponents, strict=True)])
    found = listwise_divergence(torch.from_numpy(student), torch.from_numpy(teacher), 0.3)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_a_step_down_the_divergence_raises_what_the_teacher_ranks_first() -> None:
    student = torch.zeros(1, 3, requires_grad=True)
    listwise_divergence(student, torch.tensor([[1.0, 0.0, 0.0]]), 0.5).backward()
    assert student.grad is not None
    first, *others = student.grad[0].tolist()
    assert first < 0 < min(others)


def test_drift_is_one_less_the_cosine() -> None:
    vectors = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    originals = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    assert drift(vectors, originals).item() == pytest.approx(0.2)


def test_the_teacher_adds_words_to_the_cosine_and_puts_the_source_first() -> None:
    texts = ["red fox", "red hen", "blue whale"]
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1]], dtype=np.float32)
    teacher = HybridTeacher(texts, vectors, weight=0.5, lead=0.1)
    query = PseudoQuery("red whale", 0, QueryKind.SENTENCE)
    (found,) = teacher.scores([query], np.array([[0.6, 0.8]], dtype=np.float32))
    _, hen, whale = Bm25(texts).scores(["red whale"])[0]
    assert whale > hen  # the rarer word
    # cosines .96 and .8; BM25 is measured by the best of another passage, which is the whale's
    assert found[1:] == pytest.approx([0.96 + 0.5 * hen / whale, 0.8 + 0.5], abs=1e-5)
    assert found[0] == pytest.approx(found[1:].max() + 0.1, abs=1e-5)


def test_a_query_without_a_known_word_is_ranked_by_meaning_alone() -> None:
    teacher = HybridTeacher(["a b", "c d"] * 2, np.eye(4, dtype=np.float32), weight=0.5, lead=0.1)
    query = PseudoQuery("unknown", 3, QueryKind.SENTENCE)
    (found,) = teacher.scores([query], np.array([[0.0, 1.0, 0.0, 0.0]], dtype=np.float32))
    assert found == pytest.approx([0, 1, 0, 1.1], abs=1e-5)
