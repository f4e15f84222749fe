"""Which GPUs llama.cpp can use here, and what to do about those that it can't."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from baton.core.byte_format import show_size
from baton.core.sanitiser import one_line
from baton.platform.build_info import built

_GPU_KINDS = {"cuda": "CUDA", "hip": "HIP", "metal": "Metal", "sycl": "SYCL", "vulkan": "Vulkan"}


def gpu_text(found: Mapping[str, Any]) -> tuple[str, str]:
    """Return which GPUs can be used, and why those can't that this build is made for."""
    devices = [f"{one['description']} ({show_size(one['free'])} free)" for one in found["devices"]]
    kinds: dict[str, str] = found["gpu_kinds"]
    if devices:
        return f"can use {', '.join(devices)}", ""
    if kinds:
        missing = " ".join(_unusable_text(kind, why) for kind, why in kinds.items())
        return "CPU only", f"{missing} Models run on the processor."
    return "can use a GPU, but found none" if found["gpu"] else "CPU only", ""


def _unusable_text(kind: str, why: str) -> str:
    """Say what a build for a kind of GPUs misses."""
    if kind == "vulkan" and "libvulkan.so" in why:
        return (
            "This build is for Vulkan, which isn't here (Debian, Ubuntu: apt install libvulkan1 and"
            " the driver of your GPU; Fedora: dnf install vulkan-loader)."
        )
    if kind == "cuda" and "libcuda.so" in why:
        return "This build is for NVIDIA's GPUs, and their driver isn't here."
    found = one_line(why, 160) or "no GPU was found that it can use"
    return f"This build is for {_GPU_KINDS.get(kind, kind)}, but {found}."


def idle_gpu_text(idle: Sequence[str], can: bool) -> str:
    """Say which GPUs are there for nothing, and what to do."""
    cards = ", ".join(one_line(name, 80) for name in idle)
    if can:
        return f"It can't use {cards}: is the driver there, and new enough for this build?"
    what = "Baton's build for CUDA or Vulkan" if built() else "a build of llama-cpp-python for it"
    return f"{cards} would be faster: install {what}."
