"""One linear layer applied to several streams, laid out for speed under `vmap`.

A stream is a vector of one number a unit. What is wanted under `jax.vmap` over B points
is one matrix product W H with H of shape (units, streams × points): units first, points
last. In that layout the forward product, the product with Wᵀ and the weight gradient
G Hᵀ all read along rows, and the elementwise work in between runs along points. Left
to itself `vmap` puts points first, which costs transposes and a slow weight gradient.
So `linear` is a JAX primitive with its own batching rule: a batch axis is always the
last. It is linear in its weights and in its streams, which gives its other rules.
"""

import functools

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float


def linear(
    weight: Float[Array, "out in"],
    bias: Float[Array, " out"] | None,
    streams: list[Float[Array, "in *batch"]],
) -> list[Float[Array, "out *batch"]]:
    """W h for each stream h; the first one also gets the bias.

    **Arguments:**

    - `weight`, `bias`: of the layer; no bias if it is `None`.
    - `streams`: vectors, or matrices with one column a point.

    **Returns:**

    One array for each stream.
    """
    affine = bias is not None
    operands = [weight, bias, *streams] if affine else [weight, *streams]
    dtype = jnp.result_type(*operands)
    operands = [jnp.asarray(operand, dtype) for operand in operands]
    return linear_p.bind(*operands, affine=affine)


def _apply(weight, *operands, affine: bool):
    bias, streams = _split(operands, affine)
    product = weight @ _columns(streams)
    sizes = [h.size // h.shape[0] for h in streams]
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    outs = [
        product[:, end - size : end].reshape(weight.shape[:1] + h.shape[1:])
        for h, size, end in zip(streams, sizes, ends, strict=True)
    ]
    if bias is not None:
        outs[0] = outs[0] + bias.reshape(bias.shape + (1,) * (outs[0].ndim - 1))
    return outs


def _split(operands, affine: bool):
    return (operands[0], operands[1:]) if affine else (None, operands)


def _columns(streams):
    """(units, streams × points)."""
    flat = [h.reshape(h.shape[0], -1) for h in streams]
    return flat[0] if len(flat) == 1 else jnp.concatenate(flat, axis=1)


def _shapes(weight, *operands, affine: bool):
    _, streams = _split(operands, affine)
    return [weight.update(shape=weight.shape[:1] + h.shape[1:]) for h in streams]


def _batch(operands, axes, *, affine: bool):
    if any(axis is not None for axis in axes[: 1 + affine]):
        apply = functools.partial(_apply, affine=affine)
        outs = jax.vmap(apply, in_axes=axes)(*operands)
        return outs, [0] * len(outs)
    (size,) = {a.shape[i] for a, i in zip(operands, axes, strict=True) if i is not None}
    moved = [
        a if axis is None else jnp.moveaxis(a, axis, -1)
        for a, axis in zip(operands, axes, strict=True)
    ]
    outs = linear_p.bind(*moved, affine=affine)
    # Streams that are the same at all points still come out one column a point, so
    # that whatever meets them elementwise keeps its layout.
    batched = [axis is not None for axis in axes[1 + affine :]]
    outs = [
        out if has else jnp.broadcast_to(out[..., None], (*out.shape, size))
        for out, has in zip(outs, batched, strict=True)
    ]
    return outs, [out.ndim - 1 for out in outs]


def _jvp(primals, tangents, *, affine: bool):
    """d(W h + b) = (dW h + db) + W dh."""
    head = 1 + affine
    outs = linear_p.bind(*primals, affine=affine)
    parts = []
    if not all(type(t) is ad.Zero for t in tangents[:head]):
        moved = [ad.instantiate_zeros(t) for t in tangents[:head]]
        parts.append(linear_p.bind(*moved, *primals[head:], affine=affine))
    if not all(type(t) is ad.Zero for t in tangents[head:]):
        moved = [ad.instantiate_zeros(t) for t in tangents[head:]]
        parts.append(linear_p.bind(primals[0], *moved, affine=False))
    return outs, [sum(p[1:], p[0]) for p in zip(*parts, strict=True)]


def _transpose(cotangents, weight, *operands, affine: bool):
    """Wᵀ G for the streams, G Hᵀ for the weights, the sum over points for the bias."""
    cotangents = [ad.instantiate_zeros(c) for c in cotangents]
    if not ad.is_undefined_primal(weight):
        assert not affine
        back = linear_p.bind(weight.T, *cotangents, affine=False)
        return [
            None,
            *(
                c if ad.is_undefined_primal(h) else None
                for h, c in zip(operands, back, strict=True)
            ),
        ]
    bias, streams = _split(operands, affine)
    gradient = _columns(cotangents) @ _columns(streams).T
    if not affine:
        return [gradient, *[None] * len(streams)]
    total = cotangents[0].reshape(cotangents[0].shape[0], -1).sum(axis=1)
    head = [gradient, total if ad.is_undefined_primal(bias) else None]
    return [*head, *[None] * len(streams)]


linear_p = Primitive("pinnacle_linear")
linear_p.multiple_results = True
linear_p.def_impl(_apply)
linear_p.def_abstract_eval(_shapes)
mlir.register_lowering(linear_p, mlir.lower_fun(_apply, multiple_results=True))
batching.primitive_batchers[linear_p] = _batch
ad.primitive_jvps[linear_p] = _jvp
ad.primitive_transposes[linear_p] = _transpose
