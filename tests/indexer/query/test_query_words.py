"""Which of a query's words are looked for."""

from nearsay.indexer.query.lexical import QueryWord, affordable


def words(**passages: int) -> list[QueryWord]:
    return [QueryWord(text, count, 1.0) for text, count in passages.items()]


def names(chosen: tuple[list[QueryWord], list[QueryWord]]) -> tuple[list[str], list[str]]:
    return [word.text for word in chosen[0]], [word.text for word in chosen[1]]


def test_all_are_taken_while_the_budget_lasts_rarest_first() -> None:
    assert names(affordable(words(the=900, cat=10, sat=50), 960)) == (["cat", "sat", "the"], [])


def test_the_commonest_are_left_out() -> None:
    assert names(affordable(words(the=900, cat=10, a=800, sat=50), 100)) == (["cat", "sat"], ["a", "the"])


def test_the_rarest_is_taken_however_common() -> None:
    assert names(affordable(words(the=900, a=800), 100)) == (["a"], ["the"])


def test_of_equally_common_words_the_first_is_taken() -> None:
    assert names(affordable(words(of=101, the=101), 100)) == (["of"], ["the"])


def test_a_word_costs_no_more_than_the_passages_that_may_be_found() -> None:
    assert names(affordable(words(the=900, cat=10), 60, among=50)) == (["cat", "the"], [])
    assert names(affordable(words(the=900, cat=10), 59, among=50)) == (["cat"], ["the"])


def test_no_words_are_no_words() -> None:
    assert affordable([], 100) == ([], [])
