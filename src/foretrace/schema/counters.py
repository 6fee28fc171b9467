"""Which of Nsight Compute's metrics are counted, and in which run.

A run in one pass leaves the caches as the program left them: a kernel that finds its input in L2 is
counted so. A run in several passes runs each kernel again behind itself, so that only what does not
depend on a cache may be counted there.
"""

from __future__ import annotations

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
