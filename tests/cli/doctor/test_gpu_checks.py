"""What the doctor says of GPUs."""

from __future__ import annotations

import pytest

from baton.cli.doctor.setup_checks import gpu_text, idle_gpu_text
from baton.workers.local.messages import GpuDevice, LlamaInfo

CARD = GpuDevice("CUDA0", "A\x1b GPU", 2 * 10**9, 4 * 10**9)


def llama_info(
    kinds: dict[str, str], devices: tuple[GpuDevice, ...] = (), gpu: bool = False
) -> LlamaInfo:
    return LlamaInfo("b1", "", "", gpu, kinds, list(devices))


def test_a_gpu_that_can_be_used_is_named_with_its_memory() -> None:
    assert gpu_text(llama_info({"vulkan": ""}, (CARD,), gpu=True)) == (
        "can use A\x1b GPU (2.0 GB free)",
        "",
    )
    assert gpu_text(llama_info({}, (CARD,), gpu=True))[1] == "", "one that is compiled for it"


def test_a_build_for_the_processor_has_nothing_to_miss() -> None:
    assert gpu_text(llama_info({})) == ("CPU only", "")


@pytest.mark.parametrize(
    ("kind", "why", "message"),
    [
        (
            "vulkan",
            "libvulkan.so.1: cannot open shared object file: No such file or directory",
            "apt install libvulkan1",
        ),
        ("cuda", "libcuda.so.1: cannot open shared object file", "their driver isn't here"),
        ("cuda", "", "for CUDA, but no GPU was found that it can use."),
        ("vulkan", "libfoo.so: odd\x1b[2J", "for Vulkan, but libfoo.so: odd"),
    ],
)
def test_a_build_for_gpus_says_what_it_misses(kind: str, why: str, message: str) -> None:
    text, missing = gpu_text(llama_info({kind: why}))
    assert text == "CPU only"
    assert message in missing
    assert missing.endswith("Models run on the processor.")
    assert "\x1b" not in missing


def test_one_kind_that_works_is_enough() -> None:
    text, missing = gpu_text(
        llama_info({"cuda": "libcuda.so.1: no", "vulkan": ""}, (CARD,), gpu=True)
    )
    assert text.startswith("can use")
    assert not missing


def test_cards_that_are_idle_are_named_with_a_way_out() -> None:
    assert "is the driver there" in idle_gpu_text(["RTX"], can=True)
    assert idle_gpu_text(["RTX", "GTX"], can=False).startswith(
        "RTX, GTX would be faster: install a build"
    )
