"""Stopping a run without losing it."""

import os
import signal
from types import FrameType

import pytest

from nearsay.app.cli.progress import stoppable

SIGNALS = [signal.SIGINT, signal.SIGTERM]


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    signal.sigpending()  # a call after which the interpreter looks at what came


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_asks_the_run_to_end_and_says_so(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    with stoppable() as asked:
        assert not asked()
        send(number)
        assert asked()
        assert asked()  # as often as it is looked at
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("stopping after this step") == 1


@pytest.mark.parametrize("first", SIGNALS)
@pytest.mark.parametrize("second", SIGNALS)
def test_the_second_signal_ends_it_at_once(first: signal.Signals, second: signal.Signals) -> None:
    def run() -> None:
        with stoppable():
            send(first)
            send(second)
            pytest.fail("it went on")

    with pytest.raises(KeyboardInterrupt):
        run()


@pytest.mark.parametrize("raised", [None, ValueError, KeyboardInterrupt])
def test_afterwards_signals_are_handled_as_before(raised: type[BaseException] | None) -> None:
    def mine(number: int, frame: FrameType | None) -> None:
        raise AssertionError

    def run() -> None:
        with stoppable():
            assert signal.getsignal(signal.SIGTERM) is not mine
            if raised is not None:
                raise raised

    before = signal.signal(signal.SIGTERM, mine)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        if raised is None:
            run()
        else:
            with pytest.raises(raised):
                run()
        assert signal.getsignal(signal.SIGTERM) is mine
        assert signal.getsignal(signal.SIGINT) is interrupt
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_run_that_follows_has_not_been_asked() -> None:
    with stoppable():
        send(signal.SIGTERM)
    with stoppable() as asked:
        assert not asked()
