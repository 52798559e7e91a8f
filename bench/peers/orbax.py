"""Orbax with JAX on the CPU. Its arrays never change, so its loop is one of its own: the same arrays and matrix
products of the same size, and new values for all arrays at every step, in buffers that the step may use again."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from peers.contender import Contender, flush

PACKAGES = ("torch", "jax", "orbax-checkpoint")


class JaxState:
    def __init__(self, arrays: dict[str, np.ndarray], products: int) -> None:
        import jax
        import jax.numpy as jnp

        self.tree = {name: jnp.asarray(array.copy()) for name, array in arrays.items()}
        factor = jnp.asarray(np.random.default_rng(1).standard_normal((1024, 1024), np.float32) / 32)

        def products_of(left: Any) -> Any:
            result = left
            for _ in range(products):
                result = result @ left
            return result

        self._compute = jax.jit(products_of)
        self._factor = factor
        self._add: Callable[[Any], Any] = jax.jit(
            lambda tree: jax.tree.map(lambda leaf: leaf + leaf.dtype.type(1e-6), tree), donate_argnums=0
        )
        self._wait = jax.block_until_ready

    def compute(self) -> None:
        self._wait(self._compute(self._factor))

    def update(self) -> None:
        self.tree = self._wait(self._add(self.tree))

    def digest(self) -> float:
        return sum(float(np.asarray(leaf).sum(dtype=np.float64)) for leaf in self.tree.values())

    @property
    def nbytes(self) -> int:
        return sum(leaf.nbytes for leaf in self.tree.values())


class JaxPlain(Contender):
    """The loop without saves."""

    title = "no saves (JAX)"
    packages = PACKAGES

    def make_state(self, kind: str, scale: float, seed: int) -> JaxState:
        if os.environ.get("OMP_NUM_THREADS") == "1":
            os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
        os.environ["JAX_PLATFORMS"] = "cpu"
        from peers.states import make_state

        model = make_state(kind, scale, seed)
        products = {"arrays": 4, "small": 4, "transformer": 8}[kind]
        return JaxState(
            {name: np.asarray(t.detach()) for name, t in model.tensors().items()}, max(1, round(products * scale))
        )

    def save(self, step: int) -> None:
        pass

    def settle(self) -> Path:
        return self.directory

    def forget(self, place: Path) -> None:
        if place != self.directory:
            super().forget(place)


class Orbax(JaxPlain):
    """Without compression, which halves its time for values that do not compress."""

    title = "Orbax async"
    load_title = "Orbax restore"
    is_overlapped = True

    def begin(self, state: Any, directory: Path, every: int) -> None:
        super().begin(state, directory, every)
        self._checkpointer = self._made()

    def save(self, step: int) -> None:
        self._newest = self.directory / f"step_{step}"
        self._checkpointer.save(self._newest, args=self._ocp.args.PyTreeSave(self.state.tree))

    def settle(self) -> Path:
        self._checkpointer.wait_until_finished()
        flush(self._newest)
        return self._newest

    def begin_load(self, state: Any) -> None:
        super().begin_load(state)
        self._checkpointer = self._made()

    def load(self, place: Path) -> None:
        how = self._ocp.checkpoint_utils.construct_restore_args(self.state.tree)
        wanted = self._ocp.args.PyTreeRestore(item=self.state.tree, restore_args=how)
        self.state.tree = self._checkpointer.restore(place, args=wanted)

    def end(self) -> None:
        self._checkpointer.close()

    def _made(self) -> Any:
        logging.disable(logging.WARNING)
        import orbax.checkpoint as ocp

        self._ocp = ocp
        return ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler(use_compression=False))
