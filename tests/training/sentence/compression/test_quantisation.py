import numpy as np
from sentence_transformers.util.quantization import quantize_embeddings

from nearsay.training.sentence.compression.quantisation import (
    binary_codes,
    int8_codes,
    int8_ranges,
    int8_restored,
    int8_step,
    signs,
)


def some_vectors(rows: int = 50, dimension: int = 20, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32)


def test_levels_worked_out_by_hand() -> None:
    # Between 0 and 255 a level is 1 wide, so 0 is level -128, 1.5 is -127 and 255 is 127; beyond is cut off.
    ranges = np.array([[0], [255]], np.float32)
    vectors = np.array([[0], [1.5], [255], [-9], [300]], dtype=np.float32)
    assert int8_codes(vectors, ranges).tolist() == [[-128], [-127], [127], [-128], [127]]
    assert int8_restored(np.array([[-128], [-127]], np.int8), ranges).tolist() == [[0.5], [1.5]]


def test_ranges_are_the_lowest_and_highest() -> None:
    assert int8_ranges(np.array([[1, -2], [0, 5]], np.float32)).tolist() == [[0, -2], [1, 5]]


def test_int8_levels_are_those_of_sentence_transformers() -> None:
    sample, vectors = some_vectors(), 2 * some_vectors(seed=1)
    sample[:, 3] = vectors[:, 3] = 0.25  # a dimension that is the same throughout
    np.testing.assert_array_equal(
        int8_codes(vectors, int8_ranges(sample)),
        quantize_embeddings(vectors, "int8", calibration_embeddings=sample),
    )


def test_restored_numbers_are_at_most_half_a_level_off() -> None:
    vectors = some_vectors()
    ranges = int8_ranges(vectors)
    off = np.abs(int8_restored(int8_codes(vectors, ranges), ranges) - vectors)
    assert (off <= int8_step(ranges) * 0.5001).all()
    assert off.max() > 0


def test_the_first_sign_is_the_highest_bit() -> None:
    vectors = np.array([[1, -1, 0, 2, -3, -1, -1, 0.1, 5]], dtype=np.float32)
    assert binary_codes(vectors).tolist() == [[0b10010001, 0b10000000]]
    assert signs(binary_codes(vectors), 9).tolist() == [[1, -1, -1, 1, -1, -1, -1, 1, 1]]


def test_bits_are_those_of_sentence_transformers() -> None:
    np.testing.assert_array_equal(
        binary_codes(some_vectors()), quantize_embeddings(some_vectors(), "ubinary")
    )


def test_the_cosine_of_signs_follows_from_the_distance() -> None:
    vectors = some_vectors(dimension=24)
    codes = binary_codes(vectors)
    as_signs = signs(codes, 24)
    cosines = as_signs @ as_signs[0] / 24
    differing = np.bitwise_count(codes[0] ^ codes).sum(axis=1)
    np.testing.assert_allclose(cosines, 1 - 2 * differing / 24)
