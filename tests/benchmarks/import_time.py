"""The time of `import pinnacle`, as a ratio to importing jax and equinox.

python tests/benchmarks/import_time.py
"""

import statistics
import subprocess
import sys
import time


def seconds(statement: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    pairs = [
        (seconds("import jax, equinox"), seconds("import pinnacle")) for _ in range(11)
    ]
    ratios = sorted(ours / base for base, ours in pairs)
    base = statistics.median(b for b, _ in pairs)
    print(
        f"import jax, equinox: {base:.2f} s; import pinnacle: "
        f"{statistics.median(ratios):.2f} × ({ratios[0]:.2f}–{ratios[-1]:.2f})"
    )
