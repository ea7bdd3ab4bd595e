"""Where the seconds of a run go."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from jax import monitoring


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


class Stopwatch:
    """Cumulated seconds of the parts of a run.

    **Attributes:**

    - `seconds`: of `training` and `selecting`, and of `compiling`, which is part of
      these two.
    """

    def __init__(self):
        self.seconds = {"training": 0.0, "selecting": 0.0, "compiling": 0.0}

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        begin, compiling = time.perf_counter(), CompileClock()
        try:
            with compiling:
                yield
        finally:
            self.seconds[part] += time.perf_counter() - begin
            self.seconds["compiling"] += compiling.seconds
