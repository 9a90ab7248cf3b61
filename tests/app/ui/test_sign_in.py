"""Who is signed in, and how often an address may try to."""

from nearsay.app.ui import door
from nearsay.app.ui.door import SignedIn, Tries


def tried(tries: Tries, address: str, times: int, now: float) -> int:
    return sum(tries.begin(address, now) == 0 for _ in range(times))


def test_after_five_wrong_passwords_an_address_waits_longer_each_time_and_at_most_a_minute():
    tries, now = Tries(), 0.0
    assert tried(tries, "192.0.2.1", 9, now) == 5
    waits = []
    for _ in range(9):
        waits.append(tries.begin("192.0.2.1", now))
        now += waits[-1]
        assert tries.begin("192.0.2.1", now) == 0
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_nobodys_tries_keep_another_address_out():
    tries = Tries()
    tried(tries, "192.0.2.1", 1_000, 0.0)
    assert tries.begin("192.0.2.1", 0.5) > 0
    assert tries.begin("192.0.2.2", 0.5) == 0


def test_tries_that_are_made_at_once_are_counted_before_any_was_found_wrong():
    assert tried(Tries(), "192.0.2.1", 200, 0.0) == 5


def test_a_right_password_uses_up_no_try():
    tries = Tries()
    for second in range(50):
        assert tries.begin("192.0.2.1", float(second)) == 0
        tries.was_right("192.0.2.1")


def test_the_half_of_an_ipv6_address_that_a_machine_chooses_makes_it_no_other():
    tries = Tries()
    assert sum(tries.begin(f"2001:db8:0:1::{last:x}", 0.0) == 0 for last in range(1, 100)) == 5
    assert tries.begin("2001:db8:0:2::1", 0.0) == 0
    assert tried(tries, "::ffff:192.0.2.1", 9, 0.0) == 5
    assert tries.begin("192.0.2.1", 0.0) > 0


def test_what_was_tried_is_forgotten_in_the_end():
    tries = Tries()
    tried(tries, "192.0.2.1", 9, 0.0)
    assert tried(tries, "192.0.2.1", 9, 901.0) == 5


def test_of_too_many_addresses_the_one_that_tried_longest_ago_is_forgotten(monkeypatch):
    monkeypatch.setattr(door, "_MOST", 3)
    tries = Tries()
    for last in range(5):
        tried(tries, f"192.0.2.{last}", 9, float(last) / 10)
    assert [tries.begin(f"192.0.2.{last}", 0.5) > 0 for last in range(2, 5)] == [True] * 3
    assert tries.begin("192.0.2.0", 0.5) == 0


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
    monkeypatch.setattr(door, "_MOST", 3)
    known = SignedIn()
    tokens = [known.add(float(at)) for at in range(5)]
    assert [known.knows(token, 5.0) for token in tokens] == [False, False, True, True, True]
    later = known.add(8 * 86_400.0)
    assert len(known.until) == 1
    assert known.knows(later, 8 * 86_400.0)
