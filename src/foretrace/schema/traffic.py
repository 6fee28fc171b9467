"""Memory traffic of a kernel: how sure a cost is, what L2 can hold, and what Nsight Compute counts.

A run of Nsight Compute in one pass leaves the caches as the program left them: a kernel that finds
its input in L2 is counted so. A run in several passes runs each kernel again behind itself, so that
only what does not depend on a cache may be counted there.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Certainty(StrEnum):
    """How the bytes that a cost states relate to what the op must move.

    Only `EXACT` and `AT_LEAST` never exceed what the op must move. `AT_MOST` holds for the FLOP
    beside the bytes too.
    """

    EXACT = "exact"
    AT_LEAST = "at_least"
    AT_MOST = "at_most"
    ESTIMATE = "estimate"
    NONE = "none"


# The bytes are known, but the op may move more or less.
INEXACT = frozenset({Certainty.AT_LEAST, Certainty.AT_MOST, Certainty.ESTIMATE})


class CachedInput(Struct, frozen=True):
    """An input that L2 can still hold: what wrote it, and what ran since.

    `op` launched `kernel`, which wrote as many bytes of the same type; `a or b` where launches
    differ. `before_ns` is from its end
    to the start of the reader, and `between_bytes` is the traffic of everything that started in
    between, both medians over the launches. `unpriced` of these operations have no known traffic.
    """

    tensor: str
    bytes: int
    op: str
    kernel: str
    before_ns: float
    between_bytes: int
    unpriced: int = 0


class CacheUse(Struct, frozen=True):
    """`verdict` says whether L2 explains a rate above that of HBM.

    certain   one kernel wrote as many bytes as an input has, and nothing else did that L2 can hold
    likely    several did, or not before every launch: a trace does not say which tensor is which
    result    no input can be in L2, but the result fits there and is written back later
    doubted   neither: the cost or the time is in doubt. `too_large` are its bytes, where L2 cannot
              hold them
    unknown   the same on a GPU whose L2 was not measured

    `excess_bytes` are those that HBM cannot have moved in the time, `written_bytes` the result.
    """

    verdict: str
    excess_bytes: int
    cache_bytes: int
    inputs: tuple[CachedInput, ...] = ()
    written_bytes: int = 0
    too_large: int = 0


# One pass on an H200 (driver 580): what the caches change.
IN_ONE_PASS = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_bytes.sum",
    "l1tex__t_bytes.sum",
    "gpu__time_duration.sum",
)
# Several passes: what multiprocessors send to L2, and what stays inside them.
IN_SEVERAL = (
    "lts__t_sectors_srcunit_tex.sum",
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "lts__t_sectors_srcunit_tex_op_write.sum",
    "lts__t_sectors_srcunit_ltcfabric.sum",
    "sm__sass_data_bytes_mem_shared.sum",
    "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
    "sm__ops_path_tensor_src_fp16.sum",
    "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
    "sm__ops_path_tensor_src_fp8.sum",
    "sm__ops_path_tensor_src_int8.sum",
    "sm__ops_path_tensor_src_fp64.sum",
)
# Depends on what a cache holds: of a run in several passes these say how it is behind itself.
CACHED = ("dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_bytes.sum")
SECTOR = 32  # bytes
WAVEFRONT = 128  # bytes of shared memory that one multiprocessor moves at once
