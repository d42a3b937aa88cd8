"""Times one peer on one workload and prints a line of JSON.

    python measure.py PEER WORKLOAD [--records N] [--threads 2] [--seconds 3] [--device cpu] [--precision fp32]

On a GPU ten steps are sent before their end is waited for, as a training loop does.
"""

import argparse
import importlib.util
import json
import os
import statistics
import sys
import time

from workloads import WORKLOADS

# The module, the function in it, and the packages that it takes.
PEERS = {
    "pytorch": ("torch_steps", "plain", "torch"),
    "pytorch-compiled": ("torch_steps", "compiled", "torch"),
    "opacus-hooks": ("torch_steps", "hooks", "torch", "opacus"),
    "opacus-ghost": ("torch_steps", "ghost", "torch", "opacus"),
    "torch-func": ("torch_steps", "func", "torch"),
    "jax": ("jax_steps", "plain", "jax"),
    "jax-privacy": ("jax_steps", "private", "jax", "jax_privacy"),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--records", type=int, default=0, help="microbatch; 0: the whole batch")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3, help="to measure, after as long again to warm up")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="fp32")
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])

    module, name, *packages = PEERS[args.peer]
    # Fail now, not after seconds of other imports.
    for package in packages:
        if importlib.util.find_spec(package) is None:
            sys.exit(f"{package} is not installed here")
    steps = importlib.import_module(module)
    steps.start(args.threads, args.device, args.precision)
    step = getattr(steps, name)(WORKLOADS[args.workload], args.records)
    group = 1 if args.device == "cpu" else 10
    repeat(step, steps.finish, group, 2, args.seconds / 3)
    times = repeat(step, steps.finish, group, 5, args.seconds)
    print(json.dumps({
        "median_ms": 1e3 * statistics.median(times),
        "best_ms": 1e3 * min(times),
        "steps": group * len(times),
        "peak_mb": peak_memory() if args.device == "cpu" else steps.device_memory() / 1e6,
        "versions": steps.VERSIONS,
    }))


def repeat(step, finish, group, least, seconds):
    """Times groups of steps, each to its end: at least `least` groups and at least the given time."""
    times, end = [], time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(group):
            step()
        finish()
        times.append((time.perf_counter() - start) / group)
    return times


def peak_memory():
    """The most memory that the process held, in millions of bytes; 0 where Linux does not tell."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024 / 1e6
    except OSError:
        pass
    return 0


if __name__ == "__main__":
    main()
