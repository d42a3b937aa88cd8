"""Prints the most memory that the tensors of PyTorch's plain step take together, for each workload.

    python tensor_memory.py

It counts the storages that operations return, on the CPU. It does not count what operations allocate
for themselves.
"""

import weakref

import torch
import torch_steps
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from workloads import WORKLOADS


class Storages(TorchDispatchMode):
    """The bytes of the storages that are alive, and the most so far."""

    def __init__(self):
        super().__init__()
        self.alive, self.bytes, self.peak = {}, 0, 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        results = operation(*args, **(kwargs or {}))
        tree_map_only(torch.Tensor, self.count, results)
        return results

    def count(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.alive:
            return
        self.alive[key] = storage.nbytes()
        self.bytes += self.alive[key]
        self.peak = max(self.peak, self.bytes)
        weakref.finalize(storage, self.drop, key)

    def drop(self, key):
        self.bytes -= self.alive.pop(key, 0)


def main():
    torch_steps.start(1, "cpu", "fp32")
    load = torch_steps.batch
    for name, workload in WORKLOADS.items():
        with Storages() as storages:
            batch = [part.clone() for part in load(workload)]
            torch_steps.batch = lambda _: batch
            step = torch_steps.plain(workload, 0)
            for _ in range(2):
                step()
        print(f"{name} {storages.peak / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
