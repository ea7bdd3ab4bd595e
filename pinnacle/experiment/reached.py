"""When a run has reached an accuracy."""

from collections.abc import Mapping, Sequence
from typing import Any

from .config import RunConfig


def time_to_error(
    history: Sequence[Mapping[str, Any]], metric: str, threshold: float, sustain: int
) -> tuple[int, float] | None:
    """When a run's metric fell below a threshold, to stay for `sustain` steps.

    **Returns:**

    Step and seconds (training and selecting, without what was spent on compiling) of
    the first row of the history from which on the metric is below the threshold, up to
    a row at least `sustain` steps later. `None` if there is none.
    """
    first = None
    for row in history:
        if not row[metric] < threshold:
            first = None
            continue
        first = row if first is None else first
        if row["step"] - first["step"] >= sustain:
            seconds = first["seconds_training"] + first["seconds_selecting"]
            seconds -= first.get("seconds_compiling", 0.0)
            return first["step"], float(seconds)
    return None


def has_reached(config: RunConfig, history: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a run may end early (see `RunConfig.stop_below`)."""
    if config.stop_below is None:
        return False
    arguments = (config.stop_metric, config.stop_below, config.stop_sustain)
    return time_to_error(history, *arguments) is not None
