"""Being told to end is being interrupted."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def term_as_interrupt() -> Iterator[None]:
    """SIGTERM raises `KeyboardInterrupt`, as Ctrl-C does, for as long as the context
    lasts; for the main thread."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_) -> None:
    raise KeyboardInterrupt
