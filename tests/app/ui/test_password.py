"""The password of the page."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import streamlit as st

from nearsay.app.ui import door, signed_in
from nearsay.app.ui.door import Tries
from nearsay.app.ui.password import hashed, is_right
from nearsay.app.ui.signed_in import SignedIn
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import BadInputError


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


def test_a_browser_is_remembered_for_a_week_and_by_no_token_but_its_own():
    known = SignedIn()
    token = known.add(100.0)
    assert known.knows(token, 100.0 + 6.9 * 86_400)
    assert not known.knows(token, 100.0 + 7.1 * 86_400)
    assert not known.knows(token[:-1], 101.0)
    assert not known.knows("", 101.0)
    assert token not in str(known)


def test_a_browser_that_signed_out_is_asked_again():
    known = SignedIn()
    first, second = known.add(0.0), known.add(0.0)
    known.forget(first)
    known.forget("never given")
    assert not known.knows(first, 1.0)
    assert known.knows(second, 1.0)


def test_of_too_many_browsers_the_oldest_is_asked_again(monkeypatch):
    monkeypatch.setattr(signed_in, "_MOST", 3)
    known = SignedIn()
    tokens = [known.add(float(at)) for at in range(5)]
    assert [known.knows(token, 5.0) for token in tokens] == [False, False, True, True, True]
    later = known.add(8 * 86_400.0)
    assert len(known.until) == 1
    assert known.knows(later, 8 * 86_400.0)


def test_who_signs_out_is_asked_for_the_password_again(let_in_page):
    app = let_in_page("a quiet harbour")
    app.text_input[0].input("a quiet harbour")
    app.button[0].click().run()
    next(button for button in app.button if button.label == "Sign out").click().run()
    assert app.text_input[0].label == "Password"
    app.run()
    assert app.text_input[0].label == "Password"


@pytest.fixture
def browser(monkeypatch):
    """Stands for the browser's side: what it answers, and what it was told last."""

    class Browser:
        kept, told = None, None

        def __call__(self, *, data, **_):
            self.told = data
            return {"kept": self.kept}

    found = Browser()
    monkeypatch.setattr(signed_in, "_component", lambda: found)
    return found


def is_asked(app):
    return "Password" in [field.label for field in app.text_input]


def test_what_a_browser_kept_lets_in_and_nothing_else_does(let_in_page, browser, monkeypatch):
    known = SignedIn()
    monkeypatch.setattr(signed_in, "_signed_in", lambda: known)
    app = let_in_page("a quiet harbour")
    assert is_asked(app)
    assert browser.told["token"] is None
    browser.kept = "made up"
    assert is_asked(app.run())
    assert browser.told["unknown"] == "made up"  # so that the browser throws it away
    browser.kept = known.add(time.time())
    assert not is_asked(app.run())
    assert browser.told["token"] == browser.kept
    known.forget(browser.kept)  # in another tab
    assert is_asked(app.run())
    assert browser.told["unknown"] == browser.kept
    assert not browser.told["leaving"]
    assert "changed nothing" in app.info[0].value


def test_who_signs_out_is_not_let_in_again_by_what_the_browser_kept_of_another_tab(
    let_in_page, browser, monkeypatch
):
    known = SignedIn()
    monkeypatch.setattr(signed_in, "_signed_in", lambda: known)
    app = let_in_page("a quiet harbour")
    app.text_input[0].input("a quiet harbour")
    app.button[0].click().run()
    browser.kept = known.add(time.time())
    next(button for button in app.button if button.label == "Sign out").click().run()
    assert browser.told["leaving"]
    assert is_asked(app.run())
    assert not browser.told["leaving"]  # it was said: what another tab keeps from now on stays
    assert not app.info
    app.text_input[0].input("a quiet harbour")
    app.button[0].click().run()
    assert not is_asked(app)
    assert browser.told["token"] not in (None, browser.kept)


def test_nobody_can_have_the_signed_in_and_the_tries_forgotten_by_emptying_streamlits_memory():
    before = signed_in._signed_in(), door._tries()
    st.cache_resource.clear()
    assert (signed_in._signed_in(), door._tries()) == before


def test_what_hangs_on_a_button_changes_nothing_for_who_signed_out(settings):
    behind = replace(settings, password=hashed("a quiet harbour"))
    with pytest.raises(BadInputError, match="signed out"):
        Visit(behind, None, None).check_writing()
    Visit(settings, None, None).check_writing()


def test_a_file_is_made_for_nobody_who_signed_out_after_its_button_was_drawn(monkeypatch):
    known, session = SignedIn(), {}
    monkeypatch.setattr(signed_in, "_signed_in", lambda: known)
    monkeypatch.setattr(signed_in, "st", SimpleNamespace(session_state=session))
    session["signed_in"] = known.add(time.time())
    make = signed_in.while_signed_in(lambda: b"all of it")
    assert make() == b"all of it"
    known.forget(session["signed_in"])
    session.clear()  # it is called where there is no session
    with pytest.raises(BadInputError, match="signed out"):
        make()
    assert signed_in.while_signed_in(lambda: b"no password")() == b"no password"


def test_a_page_without_a_password_offers_no_signing_out(page):
    assert "Sign out" not in [button.label for button in page("search").button]
