"""What the numbers of a run may depend on besides its configuration."""

import platform
from importlib.metadata import PackageNotFoundError, version

import jax


_PACKAGES = ("pinnacle-pinn", "jax", "jaxlib", "equinox", "optax", "numpy")


def versions() -> dict[str, str]:
    """Versions of Python and the packages, and the device."""
    found = {
        "python": platform.python_version(),
        "device": jax.devices()[0].device_kind,
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
