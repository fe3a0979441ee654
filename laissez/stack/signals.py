"""The signals that ask a stack to stop: while it runs they interrupt, while it stops they change nothing."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def _handling(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    """Handle the signals that mean stop in this way for a block; only the main thread can do so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A shell ignores the hang-up on behalf of `nohup`; that stays ignored.
    numbers = [n for n in STOP_SIGNALS if n is not signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, handled in before.items():
            signal.signal(number, handled)


def interrupting() -> contextlib.AbstractContextManager[None]:
    """Every signal that means stop raises KeyboardInterrupt, also where a shell started us with Ctrl-C ignored."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    return _handling(interrupt)


def ignoring() -> contextlib.AbstractContextManager[None]:
    """A second Ctrl-C does not cut the stopping short: it is bounded by the graces."""
    return _handling(signal.SIG_IGN)
