"""Who works on what, among processes that share a folder and nothing else.

Each unit of work has a folder. Its owner is the process that made the lock file of the
highest number there, `lock.0` at first. When that process is dead, another takes over
by making the next number. A file is made with `O_EXCL`, so exactly one process makes
it, and nobody ever removes another's lock while it may still count.
"""

import contextlib
import json
import os
import pathlib
import socket
import threading
import time
from collections.abc import Callable, Iterator


_BEAT = 5.0  # seconds between two signs of life
_UNREADABLE = 10.0  # a lock whose maker died before writing into it counts so long
_SILENT = 600.0  # a process on another host counts as dead after so long a silence


class Taken(Exception):
    """Another process owns the unit."""


@contextlib.contextmanager
def claim(
    folder: pathlib.Path, beat: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Own a folder for as long as the context lasts.

    **Arguments:**

    - `folder`: the unit's; made if it is missing.
    - `beat`: called every few seconds from a thread of its own.

    Raises `Taken` if a living process owns it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mine = _take(folder)
    stopped = threading.Event()
    beating = threading.Thread(target=_live, args=(mine, stopped, beat), daemon=True)
    beating.start()
    try:
        yield
    finally:
        stopped.set()
        beating.join()
        for lock in _locks(folder):  # from the lowest number: mine goes last
            lock.unlink(missing_ok=True)
            if lock == mine:
                break


@contextlib.contextmanager
def claim_or_refuse(folder: pathlib.Path) -> Iterator[None]:
    """As `claim`, for somebody who named the folder: raises `ValueError` with the way
    out if it is none, or if a living process owns it."""
    path = str(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{path!r} is not a folder: give another --out.")
    with contextlib.ExitStack() as owning:
        try:
            owning.enter_context(claim(folder))
        except Taken:
            raise ValueError(
                f"another process works in the folder {path!r}{_owner(folder)}: wait "
                "for its end, or stop it. If its machine is gone, it counts as dead "
                "after ten minutes of silence."
            ) from None
        yield


def _owner(folder: pathlib.Path) -> str:
    try:
        owner = json.loads(_locks(folder)[-1].read_text())
        return f" (number {owner['pid']} on {owner['host']!r})"
    except (IndexError, OSError, ValueError, KeyError):
        return ""  # gone in the meantime, or not yet written


def owned(folder: pathlib.Path) -> bool:
    """Whether a living process owns the folder."""
    locks = _locks(folder)
    return bool(locks) and _alive(locks[-1])


def _take(folder: pathlib.Path) -> pathlib.Path:
    locks = _locks(folder)
    if locks and _alive(locks[-1]):
        raise Taken(str(folder))
    number = _number(locks[-1]) + 1 if locks else 0
    mine = folder / f"lock.{number}"
    try:
        handle = os.open(mine, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        raise Taken(str(folder)) from None
    with os.fdopen(handle, "w") as file:
        json.dump(_self(), file)
    return mine


def _live(lock: pathlib.Path, stopped: threading.Event, beat) -> None:
    while not stopped.wait(_BEAT):
        with contextlib.suppress(OSError):
            os.utime(lock)
        beat()


def is_lock(path: pathlib.Path) -> bool:
    return path.stem == "lock" and path.suffix[1:].isdigit()


def _locks(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(filter(is_lock, folder.glob("lock.*")), key=_number)


def _number(lock: pathlib.Path) -> int:
    return int(lock.suffix[1:])


def _alive(lock: pathlib.Path) -> bool:
    try:
        silent = time.time() - lock.stat().st_mtime
        text = lock.read_text()
    except FileNotFoundError:
        return False
    try:
        owner = json.loads(text)
    except ValueError:
        return silent < _UNREADABLE
    if owner["host"] != socket.gethostname():
        return silent < _SILENT
    return _born(owner["pid"]) == owner["born"] and _exists(owner["pid"])


def _self() -> dict[str, str | int | None]:
    pid = os.getpid()
    return {"pid": pid, "host": socket.gethostname(), "born": _born(pid)}


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _born(pid: int) -> str | None:
    """Tells a process from a later one of the same number, where Linux's /proc is;
    `None` for a process that is gone or a zombie."""
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        fields = (
            pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        )
    except OSError:
        return None
    return None if fields[0] == "Z" else f"{boot} {fields[19]}"
