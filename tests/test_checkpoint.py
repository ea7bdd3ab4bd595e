"""Checkpoints come back as they were, and damaged files say what is wrong."""

import os

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from pinnacle import Model
from pinnacle._checkpoint import load, save
from pinnacle.nn import MLP


def _tree(width=3):
    return {
        "model": Model(MLP(2, 1, width, 2, key=jr.key(0)), {"lambda": 0.3}),
        "key": jr.key(7),
        "keys": jr.split(jr.key(8, impl="rbg"), 3),
        "step": np.asarray(12, np.int32),
        "due": np.asarray(True),
        "half": jnp.asarray([1.5, -2.0], jnp.bfloat16),
        "none": None,
        "empty": jnp.zeros((0, 4)),
        "name": "kept",
    }


def _equal(a, b):
    if isinstance(a, jax.Array) and jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        a, b = jr.key_data(a), jr.key_data(b)
    return type(a) is type(b) and (
        not eqx.is_array(a) or (a.dtype == b.dtype and np.array_equal(a, b))
    )


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "state.eqx"
    save(path, _tree())
    return path


def test_comes_back(saved):
    tree, back = _tree(), load(saved, _tree())
    assert jax.tree.structure(tree) == jax.tree.structure(back)
    assert all(jax.tree.leaves(jax.tree.map(_equal, tree, back)))
    assert isinstance(back["step"], np.ndarray)
    assert isinstance(back["half"], jax.Array)


def test_shapes_alone_are_enough(saved):
    like = eqx.filter_eval_shape(_tree)
    back = load(saved, like)
    assert back["name"] == "kept"
    assert np.array_equal(back["model"].network.weights[0], _weights(_tree()))


def _weights(tree):
    return tree["model"].network.weights[0]


def test_keeps_nonfinite_and_float64(tmp_path, x64):
    values = jnp.asarray([jnp.nan, jnp.inf, 1e-300, -0.0])
    save(tmp_path / "a", values)
    back = load(tmp_path / "a", values)
    assert back.dtype == jnp.float64
    assert np.asarray(back).tobytes() == np.asarray(values).tobytes()


def test_replaces_whole(saved):
    tree = _tree()
    tree["step"] = np.asarray(99, np.int32)
    save(saved, tree)
    assert load(saved, _tree())["step"] == 99
    assert os.listdir(saved.parent) == [saved.name]


def test_a_failed_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        save(saved, {"step": np.asarray(1)})
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


@pytest.mark.parametrize("length", [0, 5, 60, -1])
def test_truncated(saved, length):
    saved.write_bytes(saved.read_bytes()[:length])
    with pytest.raises(ValueError, match=r"state\.eqx' (is truncated|was not written)"):
        load(saved, _tree())


@pytest.mark.parametrize(
    "header",
    [
        *("[]", "3", '{"version": 1}', '{"version": 1, "checksum": 0, "leaves": 3}'),
        '{"version": 1, "checksum": 0, "leaves": [{"at": ""}]}',
        '{"version": 1, "leaves": []}',
    ],
)
def test_headers_that_say_nothing(saved, header):
    saved.write_bytes(b"pinnacle arrays\n" + header.encode() + b"\n")
    with pytest.raises(ValueError, match=r"state\.eqx' is truncated or damaged: its h"):
        load(saved, _tree())


def test_damaged(saved):
    data = bytearray(saved.read_bytes())
    data[-1] ^= 1
    saved.write_bytes(bytes(data))
    with pytest.raises(ValueError, match="is damaged: its checksum"):
        load(saved, _tree())


def test_foreign(tmp_path):
    path = tmp_path / "array.npy"
    np.save(path, np.zeros(3))
    with pytest.raises(ValueError, match="another format"):
        load(path, np.zeros(3))


def test_other_version(saved):
    saved.write_bytes(saved.read_bytes().replace(b'"version": 1', b'"version": 9', 1))
    with pytest.raises(ValueError, match="version 9"):
        load(saved, _tree())


def test_other_shapes(saved):
    message = r"float32\[3, 2\] at .*weights\[0\].*float32\[4, 2\]"
    with pytest.raises(ValueError, match=message):
        load(saved, _tree(width=4))


def test_other_precision(saved, x64):
    with pytest.raises(ValueError, match=r"float32.*float64.*precision"):
        load(saved, _tree())


def test_other_number_of_arrays(tmp_path):
    save(tmp_path / "a", [np.zeros(2)])
    with pytest.raises(ValueError, match="has 1 arrays, where 2"):
        load(tmp_path / "a", [np.zeros(2), np.zeros(2)])
