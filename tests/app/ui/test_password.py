"""The password of the page."""

from nearsay.app.ui.settings import hashed, is_right


def test_the_right_password_is_known_and_no_other():
    kept = hashed("a quiet harbour")
    assert is_right("a quiet harbour", kept)
    assert not is_right("a quiet harbour ", kept)
    assert not is_right("", kept)


def test_the_same_password_is_kept_differently_each_time_and_never_as_it_is():
    first, second = hashed("a quiet harbour"), hashed("a quiet harbour")
    assert first != second
    assert "quiet" not in first
