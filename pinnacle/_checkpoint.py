"""Saving and loading of models and training states: arrays only, no pickle.

A file is one magic line, one line of JSON that describes every leaf (where it is in the
tree, its dtype and shape), and the bytes of the leaves in that order.
"""

import json
import os
import pathlib
import zlib
from typing import Any, BinaryIO, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree


_MAGIC = b"pinnacle arrays\n"
_VERSION = 1
_ENTRY = {"at", "dtype", "shape", "bytes", "numpy"}  # of a leaf, in the header

Tree = TypeVar("Tree", bound=PyTree)
Path = str | os.PathLike[str]


def save(path: Path, tree: PyTree) -> None:
    """Write all arrays of a tree to a file.

    The file appears whole or not at all: it is written beside its place and moved there
    at the end. Keys of `jax.random` are saved with the name of their generator.

    **Arguments:**

    - `path`: the file; an existing one is replaced.
    - `tree`: for instance a [`pinnacle.Model`][] or `FitResult.state`. What is not an
      array (functions, sizes) is not saved.
    """
    named = _leaves(tree)
    data = [_bytes(leaf) for _, leaf in named]
    header = {
        "version": _VERSION,
        "leaves": [_describe(name, leaf) for name, leaf in named],
        "checksum": _checksum(data),
    }
    path = pathlib.Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "wb") as file:
            file.writelines([_MAGIC, json.dumps(header).encode(), b"\n", *data])
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def load(path: Path, like: Tree) -> Tree:
    """Read the arrays of a tree back into its structure.

    **Arguments:**

    - `path`: a file that `save` wrote.
    - `like`: a tree of the same structure, for instance a freshly made model. Its
      arrays give the shapes only, so they may be `jax.ShapeDtypeStruct`s (see
      `equinox.filter_eval_shape`); everything else in it is kept.

    **Returns:**

    `like` with the saved arrays; each is a NumPy or a JAX array as it was when saved.

    **Raises:**

    `ValueError` for a file that is truncated, damaged or not of this format, and for
    arrays of other places, dtypes or shapes than those of `like`.
    """
    with open(path, "rb") as file:
        header = _read_header(path, file)
        data = file.read()
    saved = header["leaves"]
    _check_same(path, saved, [_describe(*named) for named in _leaves(like)])
    sizes = [entry["bytes"] for entry in saved]
    if len(data) != sum(sizes):
        raise ValueError(
            f"{str(path)!r} is truncated or damaged: it holds {len(data)} bytes of "
            f"arrays where {sum(sizes)} were written. Use an older checkpoint, or run "
            "again."
        )
    if zlib.crc32(data) != header["checksum"]:
        raise ValueError(
            f"{str(path)!r} is damaged: its checksum does not fit its bytes. Use an "
            "older checkpoint, or run again."
        )
    starts = np.cumsum([0, *sizes[:-1]]).tolist()
    arrays = iter(
        _array(entry, data[start : start + entry["bytes"]])
        for entry, start in zip(saved, starts, strict=True)
    )
    return jax.tree.map(lambda leaf: next(arrays) if _is_array(leaf) else leaf, like)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)


def _is_key(leaf) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _leaves(tree: PyTree) -> list[tuple[str, Any]]:
    named = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(p), leaf) for p, leaf in named if _is_array(leaf)]


def _bytes(leaf) -> bytes:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf).tobytes()


def _checksum(data: list[bytes]) -> int:
    checksum = 0
    for part in data:
        checksum = zlib.crc32(part, checksum)
    return checksum


def _describe(name: str, leaf) -> dict[str, Any]:
    entry = {"at": name, "dtype": str(leaf.dtype), "shape": list(leaf.shape)}
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return entry
    data = jax.random.key_data(leaf) if _is_key(leaf) else leaf
    entry["bytes"] = data.nbytes
    entry["numpy"] = not isinstance(leaf, jax.Array)
    if _is_key(leaf):
        entry["generator"] = str(jax.random.key_impl(leaf))
    return entry


def _array(entry: dict[str, Any], data: bytes):
    if "generator" in entry:
        words = np.frombuffer(data, np.uint32).reshape(*entry["shape"], -1)
        return jax.random.wrap_key_data(jnp.asarray(words), impl=entry["generator"])
    array = np.frombuffer(data, jnp.dtype(entry["dtype"])).reshape(entry["shape"])
    return array.copy() if entry["numpy"] else jnp.asarray(array)


def _read_header(path: Path, file: BinaryIO) -> dict[str, Any]:
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError(
            f"{str(path)!r} was not written by `save`: it has another format."
        )
    damaged = ValueError(
        f"{str(path)!r} is truncated or damaged: its header cannot be read. Use an "
        "older checkpoint, or run again."
    )
    try:
        header = json.loads(file.readline())
    except ValueError:
        raise damaged from None
    if not isinstance(header, dict):
        raise damaged
    if header.get("version") != _VERSION:
        raise ValueError(
            f"{str(path)!r} has format version {header.get('version')}, this library "
            f"reads version {_VERSION}: load it with the version that wrote it."
        )
    if not _is_complete(header):
        raise damaged
    return header


def _is_complete(header: dict[str, Any]) -> bool:
    leaves = header.get("leaves")
    return (
        "checksum" in header
        and isinstance(leaves, list)
        and all(isinstance(leaf, dict) and leaf.keys() >= _ENTRY for leaf in leaves)
        and all(type(leaf["bytes"]) is int for leaf in leaves)
    )


def _check_same(path: Path, saved: list[dict], expected: list[dict]) -> None:
    for was, wanted in zip(saved, expected, strict=False):
        if any(was[name] != wanted[name] for name in ("at", "dtype", "shape")):
            raise ValueError(
                f"{str(path)!r} does not fit `like`: it has {_words(was)}, where "
                f"{_words(wanted)} is expected. Build `like` with the settings and the "
                "precision of the run that saved it."
            )
    if len(saved) != len(expected):
        raise ValueError(
            f"{str(path)!r} does not fit `like`: it has {len(saved)} arrays, where "
            f"{len(expected)} are expected. Build `like` with the settings of the run "
            "that saved it."
        )


def _words(entry: dict[str, Any]) -> str:
    return f"{entry['dtype']}{entry['shape']} at {entry['at'] or 'the root'}"
