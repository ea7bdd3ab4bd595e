"""A compilation cache on disk, for the command's process only."""

import os
import pathlib
import sys
import time

import jax
from jax import monitoring
from jax.experimental.compilation_cache import compilation_cache


VARIABLE = "PINNACLE_CACHE_DIR"


def cache_folder() -> pathlib.Path:
    """Where the command keeps compiled functions.

    `$PINNACLE_CACHE_DIR` if set, else `pinnacle` in the user's cache folder:
    `$XDG_CACHE_HOME` or `~/.cache`, `~/Library/Caches` on macOS, `%LOCALAPPDATA%` on
    Windows.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return pathlib.Path(named).expanduser()
    if sys.platform == "darwin":
        user = pathlib.Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        user = (
            pathlib.Path(local) if local else pathlib.Path.home() / "AppData" / "Local"
        )
    else:
        xdg = os.environ.get("XDG_CACHE_HOME")
        user = pathlib.Path(xdg) if xdg else pathlib.Path.home() / ".cache"
    return user / "pinnacle"


def enable_cache() -> None:
    """Keep every compiled function in `cache_folder()`, however small or quick."""
    settings = {
        "jax_compilation_cache_dir": str(cache_folder() / "compiled"),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # JAX looks at the settings once a process


_BACKEND = "/jax/core/compile/backend_compile_duration"
_COMPILING = {
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    _BACKEND,
}
_LATE = 1e-3  # seconds after an event's end in which we hear of it


class CompileClock:
    """Adds up what is spent on tracing and compiling functions, while it is open.

    Functions are traced while others are: that time counts once.

    **Attributes:**

    - `seconds`: spent.
    - `functions`: compiled, or read from the cache on disk.
    """

    def __init__(self):
        self.seconds, self.functions = 0.0, 0
        self._spans: list[tuple[float, float]] = []  # begin and duration

    def __enter__(self) -> "CompileClock":
        monitoring.register_event_duration_secs_listener(self._listen)
        return self

    def __exit__(self, *error) -> None:
        monitoring.unregister_event_duration_listener(self._listen)

    def _listen(self, event: str, duration_secs: float, **kwargs) -> None:
        del kwargs
        if event in _COMPILING:
            begin = time.time() - duration_secs
            while self._spans and self._spans[-1][0] > begin - _LATE:
                self.seconds -= self._spans.pop()[1]
            self._spans.append((begin, duration_secs))
            self.seconds += duration_secs
        self.functions += event == _BACKEND
