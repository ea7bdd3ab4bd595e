"""A compilation cache on disk, for the command's process only."""

import os
import pathlib
import sys

import jax
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
