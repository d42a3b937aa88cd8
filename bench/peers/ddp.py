"""Compares the speed of PyTorch's DistributedDataParallel (gloo) with that of threads, one thread a rank.

python3 ddp.py [TURNS]: in turn one process with 2 threads and 2 ranks with a thread each train an MLP of 784, 1,000 and 10
units by SGD without privacy, on lots of 2,048 pictures. It prints the median ratio of their speeds with its
quartiles, and that of their processor times. Compare with `bash .ci/scaling`, which measures the same network here.
"""

import os
import resource
import socket
import statistics
import sys
import time

import torch
from torch import distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel

LOT, STEPS, WARM = 2048, 30, 5


def train(rank, ranks, port, threads, out):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(784, 1000), torch.nn.ReLU(), torch.nn.Linear(1000, 10))
    if ranks > 1:
        distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
        network = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    pictures, labels = torch.rand(LOT // ranks, 784), torch.randint(10, (LOT // ranks,))
    for step in range(WARM + STEPS):
        if step == WARM:
            began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(pictures), labels).backward()
        optimizer.step()
    after = resource.getrusage(resource.RUSAGE_SELF)
    out.put((time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    if ranks > 1:
        distributed.barrier()
        distributed.destroy_process_group()


def measure(ranks, threads):
    """Returns the time of a lot and the processor time of all ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    out = multiprocessing.get_context("spawn").SimpleQueue()
    multiprocessing.spawn(train, (ranks, port, threads, out), nprocs=ranks)
    times = [out.get() for _ in range(ranks)]
    return max(t[0] for t in times) / STEPS, sum(t[1] for t in times) / STEPS


def quartiles(values):
    values = statistics.quantiles(values, method="inclusive") if len(values) > 1 else values * 3
    return "%.3f (%.3f to %.3f)" % (values[1], values[0], values[2])


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    pairs = [(measure(1, 2), measure(2, 1)) for _ in range(turns)]
    print("PyTorch", torch.__version__, "DDP over gloo: speed of 2 ranks", quartiles([t[0] / r[0] for t, r in pairs]), "of 2 threads, processor time",
          quartiles([r[1] / t[1] for t, r in pairs]), "; shortest lots: threads %.4g s, ranks %.4g s" % (min(t[0] for t, _ in pairs), min(r[0] for _, r in pairs)))
