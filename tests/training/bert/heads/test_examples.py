"""Texts, words and questions as rows of tokens."""

import numpy as np
import pytest
from tokenizers import Tokenizer

from nearsay.data.answered_questions import Answer
from nearsay.data.errors import BadInputError
from nearsay.training.bert.heads.example import (
    NO_TARGET,
    ExampleTokens,
    HeadExample,
    QuestionLengths,
    batch_tensors,
    question_examples,
    text_examples,
    word_examples,
)


def spelled(tokenizer: Tokenizer, example: HeadExample) -> str:
    return " ".join(tokenizer.id_to_token(number) for number in example.token_ids.tolist())


def test_a_text_is_one_segment(tokens: ExampleTokens, tiny_tokenizer: Tokenizer) -> None:
    rows = text_examples(tokens, ["the cat", "Sating"], length=16, targets=np.array([3, 1]))
    assert [spelled(tiny_tokenizer, row) for row in rows.examples] == [
        "[CLS] the cat [SEP]",
        "[CLS] sat ##ing [SEP]",
    ]
    assert [row.second_from for row in rows.examples] == [4, 4]
    assert [row.targets.tolist() for row in rows.examples] == [[3], [1]]
    assert rows.truncated == 0


def test_a_pair_is_two_segments(tokens: ExampleTokens, tiny_tokenizer: Tokenizer) -> None:
    (row,) = text_examples(tokens, ["the cat"], ["sat"], length=16).examples
    assert spelled(tiny_tokenizer, row) == "[CLS] the cat [SEP] sat [SEP]"
    assert batch_tensors([row], pad_id=0)["token_type_ids"].tolist() == [[0, 0, 0, 0, 1, 1]]


def test_the_longer_text_of_a_pair_gives_up_its_end(tokens: ExampleTokens, tiny_tokenizer: Tokenizer) -> None:
    rows = text_examples(
        tokens, ["a b c d e", "a", "a b c d", "a b c"], ["x", "v w x y z", "w x y z", "x y z"], length=9
    )
    assert [spelled(tiny_tokenizer, row) for row in rows.examples] == [
        "[CLS] a b c d e [SEP] x [SEP]",
        "[CLS] a [SEP] v w x y z [SEP]",
        "[CLS] a b c [SEP] w x y [SEP]",
        "[CLS] a b c [SEP] x y z [SEP]",
    ]
    assert rows.truncated == 1
    (row,) = text_examples(tokens, ["a b c d"], ["w x y z"], length=8).examples
    assert spelled(tiny_tokenizer, row) == "[CLS] a b c [SEP] w x [SEP]"  # the second gave up the odd one


def test_a_long_text_is_cut_and_counted(tokens: ExampleTokens, tiny_tokenizer: Tokenizer) -> None:
    rows = text_examples(tokens, ["a b c d e f g h", "a"], length=8)
    assert spelled(tiny_tokenizer, rows.examples[0]) == "[CLS] a b c d e f [SEP]"
    assert rows.truncated == 1


@pytest.mark.parametrize(("length", "pairs"), [(2, None), (4, ["x"])])
def test_a_length_without_room_is_refused(
    tokens: ExampleTokens, length: int, pairs: list[str] | None
) -> None:
    with pytest.raises(BadInputError, match="leaves no room for text"):
        text_examples(tokens, ["a"], pairs, length=length)


def test_half_a_character_is_refused(tokens: ExampleTokens) -> None:
    with pytest.raises(BadInputError, match="half a character"):
        text_examples(tokens, ["a \ud800"], length=8)


def test_a_batch_is_as_wide_as_its_longest_row() -> None:
    rows = [
        HeadExample(np.array([2, 7, 3], np.int32), 3, np.array([5])),
        HeadExample(np.array([2, 7, 3, 8, 3], np.int32), 3, np.array([6])),
    ]
    batch = {name: tensor.tolist() for name, tensor in batch_tensors(rows, pad_id=9).items()}
    assert batch == {
        "input_ids": [[2, 7, 3, 9, 9], [2, 7, 3, 8, 3]],
        "attention_mask": [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]],
        "token_type_ids": [[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]],
        "targets": [[5], [6]],
    }


def test_the_first_token_of_a_word_carries_its_tag(tokens: ExampleTokens, tiny_tokenizer: Tokenizer) -> None:
    sentence = ("the", "cats", "😀", "\ufe0f", "sating")
    (row,) = word_examples(tokens, [sentence], length=16, targets=[np.array([0, 1, 2, 3, 4])])
    assert spelled(tiny_tokenizer, row.example) == "[CLS] the cat ##s [UNK] [UNK] sat ##ing [SEP]"
    no = NO_TARGET
    assert row.example.targets.tolist() == [no, 0, 1, no, 2, 3, 4, no, no]
    assert row.positions.tolist() == [1, 2, 4, 5, 6]


def test_a_word_of_several_words_is_one(tokens: ExampleTokens, tiny_tokenizer: Tokenizer) -> None:
    (row,) = word_examples(tokens, [("the cat.", "sat")], length=16)
    assert spelled(tiny_tokenizer, row.example) == "[CLS] the cat . sat [SEP]"
    assert row.positions.tolist() == [1, 4]


def test_a_long_sentence_becomes_windows_that_share_no_word(
    tokens: ExampleTokens, tiny_tokenizer: Tokenizer
) -> None:
    # Six tokens of room, the next window after three. Context of c: min(2, 3), of d: min(3, 2) in the first
    # window and min(0, 4) in the second; e has min(4, 1) and min(1, 4): the first has all of these.
    words = tuple("abcdefghi")
    rows = word_examples(tokens, [words], length=8, targets=[np.arange(9)])
    assert [spelled(tiny_tokenizer, row.example) for row in rows] == [
        "[CLS] a b c d e f [SEP]",
        "[CLS] d e f g h i [SEP]",
    ]
    no = NO_TARGET
    assert [row.example.targets.tolist() for row in rows] == [
        [no, 0, 1, 2, 3, 4, no, no],
        [no, no, no, 5, 6, 7, 8, no],
    ]
    assert [(row.first_word, row.positions.tolist()) for row in rows] == [
        (0, [1, 2, 3, 4, 5]),
        (5, [3, 4, 5, 6]),
    ]


def test_a_word_that_is_longer_than_a_row_keeps_its_beginning(
    tokens: ExampleTokens, tiny_tokenizer: Tokenizer
) -> None:
    rows = word_examples(tokens, [("abcdefghijk", "x")], length=8)
    assert spelled(tiny_tokenizer, rows[0].example) == "[CLS] a ##b ##c ##d ##e ##f [SEP]"
    assert [len(row.positions) for row in rows] == [1, 1]


def test_a_sentence_without_words_is_a_row_without_words(tokens: ExampleTokens) -> None:
    (row,) = word_examples(tokens, [()], length=8)
    assert len(row.example) == 2
    assert len(row.positions) == 0


LENGTHS = QuestionLengths(row=16, step=3, question=4)


def test_an_answer_is_found_by_its_characters(tokens: ExampleTokens, tiny_tokenizer: Tokenizer) -> None:
    context = "😀 the cats sat."
    rows = question_examples(
        tokens, [("x", context)], lengths=LENGTHS, answers=[Answer("cats", context.index("cats"))]
    )
    (row,) = rows.examples
    assert spelled(tiny_tokenizer, row.example) == "[CLS] x [SEP] [UNK] the cat ##s sat . [SEP]"
    assert row.example.targets.tolist() == [5, 6]
    assert row.context_from == 3
    start, end = row.example.targets - row.context_from
    assert context[row.offsets[start, 0] : row.offsets[end, 1]] == "cats"


def test_an_answer_of_half_a_word_takes_the_tokens_that_it_touches(tokens: ExampleTokens) -> None:
    # "thin" in "the thing" is t ##h ##i ##n ##g without its last token
    (row,) = question_examples(
        tokens, [("x", "the thin")], lengths=LENGTHS, answers=[Answer("hi", 5)]
    ).examples
    assert (row.example.targets - row.context_from).tolist() == [2, 3]


def test_an_answer_is_learned_in_the_windows_that_hold_all_of_it(
    tokens: ExampleTokens, tiny_tokenizer: Tokenizer
) -> None:
    # Twelve tokens of context, room for 16 - 3 - 2 = 11 of them; the answer is the last two.
    context = "a b c d e f g h i j k l"
    rows = question_examples(
        tokens, [("x y", context)], lengths=LENGTHS, answers=[Answer("k l", context.index("k l"))]
    )
    first, second = rows.examples
    assert spelled(tiny_tokenizer, first.example) == "[CLS] x y [SEP] a b c d e f g h i j k [SEP]"
    assert first.example.targets.tolist() == [0, 0]
    assert spelled(tiny_tokenizer, second.example) == "[CLS] x y [SEP] d e f g h i j k l [SEP]"
    assert second.example.targets.tolist() == [11, 12]
    assert second.offsets[0].tolist() == [6, 7]


def test_a_question_without_an_answer_points_to_the_first_token(tokens: ExampleTokens) -> None:
    (row,) = question_examples(tokens, [("x", "a b")], lengths=LENGTHS, answers=[None]).examples
    assert row.example.targets.tolist() == [0, 0]


def test_a_long_question_is_cut_and_counted(tokens: ExampleTokens, tiny_tokenizer: Tokenizer) -> None:
    rows = question_examples(tokens, [("v w x y z", "a"), ("v", "a")], lengths=LENGTHS)
    assert spelled(tiny_tokenizer, rows.examples[0].example) == "[CLS] v w x y [SEP] a [SEP]"
    assert rows.truncated == 1


@pytest.mark.parametrize("wrong", [{"row": 10, "question": 7}, {"step": 0}, {"question": 0}])
def test_lengths_without_room_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadInputError, match="no room for the context"):
        QuestionLengths(**wrong)


def test_one_string_where_a_list_is_meant_is_a_mistake(tokens: ExampleTokens) -> None:
    with pytest.raises(TypeError, match="one string"):
        tokens.texts("a text")
    with pytest.raises(TypeError, match="one string"):
        tokens.words(["a text"])
    with pytest.raises(TypeError, match="is a int"):
        tokens.texts([5])  # type: ignore[list-item]
