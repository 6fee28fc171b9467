"""Block sizes that the log states."""

from __future__ import annotations

import pytest

from foretrace.model.compiled.assemble import configured
from foretrace.schema.compiler import GeneratedKernel

KERNEL = GeneratedKernel("k", "triton", "", {"R0_BLOCK": 8})


def test_one_configuration() -> None:
    payload = b'{"k": {"only_config": [["XBLOCK", 16], ["num_warps", 4]], "compile_time_us": 1}}'
    assert configured([KERNEL], payload)[0].config == {"R0_BLOCK": 8, "XBLOCK": 16, "num_warps": 4}


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"{", b'{"k": 3}', b'{"k": {"only_config": [3, ["a"], ["b", "c"]]}}']
)
def test_other_records_say_nothing(payload: bytes) -> None:
    assert configured([KERNEL], payload) == [KERNEL]
