"""Chooses device, dtype and kernels once, at load, and keeps the reason for the user."""

from __future__ import annotations

import logging

import torch
from platformdirs import user_cache_path

from .. import __version__
from .cpu.threads import default_threads
from .interface import Kernels
from .reference import ReferenceKernels

log = logging.getLogger(__name__)

TORCH_THREADS = torch.get_num_threads()
"""What torch would take by itself, or was told by OMP_NUM_THREADS."""


class DeviceUnavailable(Exception):
    """A device that was asked for by name is not there; the text says why."""


def choose_device(name: str) -> tuple[torch.device, str]:
    """The device to run on and why: ``auto`` takes CUDA when it works, else the CPU.

    Raises:
        DeviceUnavailable: a named device does not work here.
    """
    if name == "cpu":
        return torch.device("cpu"), "the CPU was asked for"
    if name.startswith("mps"):
        if torch.backends.mps.is_available():
            return torch.device(name), "MPS was asked for"
        raise DeviceUnavailable("this machine has no MPS device")
    problem = cuda_problem(name if name.startswith("cuda") else "cuda")
    if problem is None:
        return torch.device(name if name.startswith("cuda") else "cuda"), "a CUDA device was found"
    if name != "auto":
        raise DeviceUnavailable(problem)
    return torch.device("cpu"), problem


def cuda_problem(name: str) -> str | None:
    """Why CUDA cannot be used, or None when it can. Never raises: drivers fail in many ways."""
    try:
        if not torch.cuda.is_available():
            return "no CUDA device was found"
        torch.zeros(1, device=name).item()
    except Exception as error:
        return f"CUDA did not start ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
    return None


def choose_dtype(name: str, device: torch.device) -> tuple[torch.dtype, str]:
    """The dtype of KV cache and activations, and a remark when it is not the one asked for."""
    if name in ("float32", "bfloat16", "float16"):
        if name == "float16" and device.type == "cpu":
            return torch.bfloat16, "float16 is not for the CPU, bfloat16 is used"
        if name == "bfloat16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
            return torch.float16, "this GPU has no bfloat16, float16 is used"
        return getattr(torch, name), ""
    if device.type == "cuda":
        return (torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16), ""
    return torch.bfloat16, ""


def choose_kernels(device: str | torch.device, dtype: torch.dtype, threads: int | None = None) -> Kernels:
    """The best kernels for ``device``, with the reason in ``.reason``.

    Args:
        threads: of the CPU; by default `default_threads`, for plain torch no more than it takes by itself.
    """
    device = torch.device(device)
    torch.set_num_threads(threads or min(TORCH_THREADS, default_threads()))
    if device.type != "cpu":
        return ReferenceKernels(device, dtype, f"plain torch, there are no compiled kernels for {device.type} yet")
    if dtype not in (torch.float32, torch.bfloat16):
        return ReferenceKernels(device, dtype, f"plain torch, the compiled kernels do not know {dtype}")
    plain = plain_cpu_dtype(dtype)
    try:
        from .cpu.kernels import CpuKernels

        return CpuKernels(plain, user_cache_path("pagedchat", appauthor=False), __version__, threads)
    except Exception as error:  # Numba fails to import in many ways; the app must start all the same
        problem = f"Numba cannot be used here ({type(error).__name__}: {error})"
        log.warning("%s; replies will be slow.", problem)
        return ReferenceKernels(device, plain, f"plain torch, {problem}")


def plain_cpu_dtype(dtype: torch.dtype) -> torch.dtype:
    """What plain torch computes in on this CPU: bfloat16 products are many times slower without instructions for it."""
    known = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return dtype if known is not None and known() else torch.float32
