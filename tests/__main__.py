"""Everything that must pass before a change lands: `python -m tests`."""

import shutil
import subprocess
import sys
from pathlib import Path


ROOT = Path(__file__).parent.parent
CHECKS = (
    ("ruff", "format", "--check", "."),
    ("ruff", "check", "."),
    ("pyright", "--pythonpath", sys.executable),
    (
        "pytest",
        "-n",
        "2",
        "--dist",
        "worksteal",
        "--timeout",
        "600",
        "--durations",
        "9",
    ),
)


def main() -> int:
    """Run every check, and fail if any of them failed."""
    failed = [check[0] for check in CHECKS if not _passes(check)]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def _passes(check: tuple[str, ...]) -> bool:
    print("$", *check, flush=True)
    program = shutil.which(check[0], path=str(Path(sys.executable).parent))
    if program is None:
        raise SystemExit(f"{check[0]} is not installed: pip install -e '.[dev]'")
    return subprocess.run([program, *check[1:]], cwd=ROOT, check=False).returncode == 0


if __name__ == "__main__":
    raise SystemExit(main())
