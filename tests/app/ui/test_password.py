"""The password of the page."""

from nearsay.app.ui.door import Tries
from nearsay.app.ui.password import hashed, is_right


def test_the_right_password_is_known_and_no_other():
    kept = hashed("a quiet harbour")
    assert is_right("a quiet harbour", kept)
    assert not is_right("a quiet harbour ", kept)
    assert not is_right("", kept)


def test_the_same_password_is_kept_differently_each_time_and_never_as_it_is():
    first, second = hashed("a quiet harbour"), hashed("a quiet harbour")
    assert first != second
    assert "quiet" not in first


def test_after_ten_wrong_tries_a_minute_has_to_pass():
    tries = Tries()
    for second in range(10):
        assert tries.begin(float(second))
    assert not tries.begin(10.0)
    assert not tries.begin(59.0)
    assert tries.begin(60.5)


def test_tries_that_are_made_at_once_are_counted_before_any_was_found_wrong():
    tries = Tries()
    assert sum(tries.begin(0.0) for _ in range(200)) == 10


def test_a_right_password_uses_up_no_try():
    tries = Tries()
    for second in range(50):
        assert tries.begin(float(second))
        tries.was_right(float(second))


def test_the_page_is_behind_the_password(let_in_page):
    app = let_in_page("a quiet harbour")
    assert app.text_input[0].label == "Password"
    assert [title.value for title in app.title] == ["nearsay"]
    app.text_input[0].input("a loud harbour")
    app.button[0].click().run()
    assert "not the password" in app.error[0].value
    app.text_input[0].input("a quiet harbour")
    app.button[0].click().run()
    assert not app.error
    assert [heading.value for heading in app.title] != ["nearsay"]
