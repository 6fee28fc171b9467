"""The kernel that a person means."""

from __future__ import annotations

import pytest

from foretrace.analyze.why.kernels import kernels_named
from foretrace.base.errors import UsageError
from foretrace.schema.documents.why import SCHEMA, CallEntry, CompiledKernel, Why
from foretrace.schema.ledger import LedgerEntry

GELU, SILU, MM = (
    "triton_poi_fused__unsafe_view_gelu_mul_0",
    "triton_poi_fused_silu_1",
    "extern_kernels.mm",
)


def _kernel(name: str, handle: str, *ran: str) -> CompiledKernel:
    calls = [CallEntry(handle, [], [], None, None)]
    return CompiledKernel(
        name, "0/0", "inference", name == MM, [], [], "", "", [], [], 0, 0, 0,
        gpu_names=list(ran), calls=calls,
    )  # fmt: skip


def _document(*kernels: CompiledKernel) -> Why:
    ledger = LedgerEntry(0, 0, 0, 0, [])
    return Why(SCHEMA, "", None, [], [], ledger, [], list(kernels), [], [], [], [])


KERNELS = _document(
    _kernel(MM, "extern_kernels.mm:1", "nvjet_a"),
    _kernel(MM, "extern_kernels.mm:2", "nvjet_b"),
    _kernel(GELU, f"{GELU}:3", GELU),
    _kernel(SILU, f"{SILU}:4", SILU),
)


@pytest.mark.parametrize(
    ("wanted", "handles"),
    [
        (GELU, [f"{GELU}:3"]),
        ("gelu", [f"{GELU}:3"]),
        ("triton_poi_fused_gelu_mul_0", [f"{GELU}:3"]),
        ("triton_poi_fused_s", [f"{SILU}:4"]),
        ("mm", ["extern_kernels.mm:1", "extern_kernels.mm:2"]),
        ("extern_kernels.mm:2", ["extern_kernels.mm:2"]),
        ("nvjet_b", ["extern_kernels.mm:2"]),
    ],
)
def test_a_name_or_a_part_of_it(wanted: str, handles: list[str]) -> None:
    assert [row.calls[0].handle for row in kernels_named(KERNELS, wanted)] == handles


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("triton_poi", "fits 2 kernels"),
        ("triton_poi_fused_gelu_mul_7", f"the nearest: {SILU}, {GELU}"),
        ("conv", "no kernel 'conv'"),
    ],
)
def test_what_fits_none_or_several(wanted: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        kernels_named(KERNELS, wanted)


def test_a_log_without_kernels() -> None:
    with pytest.raises(UsageError, match="the log has no kernel"):
        kernels_named(_document(), "mm")
