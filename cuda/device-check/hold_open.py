"""Holds the GPU open until the parent process ends, and imports PyTorch, whose files are then in memory.

A driver can initialize the GPU for each process while none has it open.
"""

import ctypes
import os
import time


COMPUTE_MODE = 20  # an attribute of a device; its default value, 0, allows several processes


def hold():
    driver = ctypes.CDLL(os.environ.get("DPTRAIN_LIBCUDA") or "libcuda.so.1")
    device, mode, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()

    def call(function, *arguments):
        status = function(*arguments)
        if status != 0:
            raise OSError(f"{function.__name__} returns {status}")

    call(driver.cuInit, 0)
    call(driver.cuDeviceGet, ctypes.byref(device), 0)
    call(driver.cuDeviceGetAttribute, ctypes.byref(mode), COMPUTE_MODE, device)
    if mode.value != 0:
        raise OSError(f"its compute mode {mode.value} limits processes")
    call(driver.cuDevicePrimaryCtxRetain, ctypes.byref(context), device)


def main():
    parent, start = os.getppid(), time.monotonic()
    try:
        hold()
    except OSError as error:
        print(f"the GPU is not held open: {error}", flush=True)
    try:
        import torch

        torch.zeros(1, device="cuda").sum().item()
        print(f"torch {torch.__version__} was imported in {time.monotonic() - start:.0f} s", flush=True)
    except Exception as error:
        print(f"torch cannot be used: {type(error).__name__}: {error}".splitlines()[0], flush=True)
    while os.getppid() == parent:
        time.sleep(1)


if __name__ == "__main__":
    main()
