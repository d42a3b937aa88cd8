"""Training steps in JAX: ordinary, and private by jax-privacy, which is imported where it is used."""

from importlib.metadata import version

import jax
import jax.numpy as jnp
import jax_networks as networks
import numpy
from workloads import BOUND, MULTIPLIER, RATE

VERSIONS = {"jax": jax.__version__}


def start(_, device, precision):
    """XLA takes one thread for each processor that the process may use."""
    jax.config.update("jax_platforms", device)
    jax.config.update("jax_default_matmul_precision", {"fp32": "highest", "tf32": "tensorfloat32", "bf16": "bfloat16"}[precision])


LAST = None  # what the last step computes


def finish():
    jax.block_until_ready(LAST)


def device_memory():
    return jax.devices()[0].memory_stats()["peak_bytes_in_use"]


def prepare(workload):
    shapes, logits = getattr(networks, workload.network)(workload)
    draw = numpy.random.default_rng(2)
    params = {}
    for name, shape in shapes.items():
        deviation = (numpy.prod(shape[:-1]) or 1) ** -0.5 if len(shape) > 1 else 0.1
        params[name] = jnp.asarray(deviation * draw.standard_normal(shape), jnp.float32)

    def loss(params, x, y):
        chances = jax.nn.log_softmax(logits(params, x))
        return -jnp.take_along_axis(chances, y[..., None], -1).mean()

    features, labels = workload.data()
    if features.ndim == 4:
        features = features.transpose(0, 2, 3, 1)
    features = jnp.asarray(features, jnp.int32 if workload.vocabulary else jnp.float32)
    return params, loss, features, jnp.asarray(labels, jnp.int32)


def plain(workload, _):
    params, loss, features, labels = prepare(workload)

    @jax.jit(donate_argnums=0)
    def update(params, x, y):
        return jax.tree.map(lambda p, g: p - RATE * g, params, jax.grad(loss)(params, x, y))

    def step():
        nonlocal params
        global LAST
        LAST = params = update(params, features, labels)

    return step


def private(workload, records):
    """Clips the given number of records at a time; 0: all."""
    from jax_privacy.clipping import clipped_grad

    VERSIONS["jax-privacy"] = version("jax-privacy")
    params, loss, features, labels = prepare(workload)
    clipped = clipped_grad(loss, l2_clip_norm=BOUND, batch_argnums=(1, 2), microbatch_size=records or None)

    @jax.jit(donate_argnums=(0, 3))
    def update(params, x, y, key):
        key, *keys = jax.random.split(key, 1 + len(params))
        sums = clipped(params, x, y)

        def move(p, g, key):
            noise = MULTIPLIER * BOUND * jax.random.normal(key, g.shape)
            return p - RATE / workload.batch * (g + noise)

        return jax.tree.map(move, params, sums, dict(zip(sorted(params), keys))), key

    # The generator that is quickest on CPU.
    key = jax.random.key(1, impl="rbg")

    def step():
        nonlocal params, key
        global LAST
        LAST = params, key = update(params, features, labels, key)

    return step
