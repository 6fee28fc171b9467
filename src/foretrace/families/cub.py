"""Device-wide primitives: CUB (also PyTorch's copy `at_cuda_detail::cub`), hipCUB and rocPRIM,
Thrust.
"""

from __future__ import annotations

from functools import partial

from foretrace.families import _cpp, _dtypes
from foretrace.families._parser import NameParser, rx
from foretrace.schema.kernel import Family, KernelId

# pattern of the function -> (op, short, role)
KERNELS = (
    (r"Device(?:Segmented)?RadixSort\w*", "radix sort", "radix sort", "sort"),
    (r"DeviceMergeSort\w*|DeviceSegmentedSort\w*", "merge sort", "merge sort", "sort"),
    (r"DeviceReduceByKey\w*", "reduce_by_key", "reduce by key", "reduction"),
    (r"Device(?:Segmented)?Reduce\w*", "reduce", "reduce", "reduction"),
    (r"DeviceScanByKey\w*", "scan_by_key", "scan by key", "reduction"),
    (r"DeviceScan\w*", "scan", "scan (prefix sum)", "reduction"),
    (r"DeviceCompactInit\w*", "scan", "scan: init", "reduction"),
    (r"DeviceUniqueByKey\w*", "unique_by_key", "unique by key", "scatter_gather"),
    (
        r"DeviceSelect\w*|DevicePartition\w*|DeviceThreeWayPartition\w*",
        "select",
        "select",
        "scatter_gather",
    ),
    (r"DeviceHistogram\w*", "histogram", "histogram", "reduction"),
    (
        r"DeviceRle\w*|DeviceRunLengthEncode\w*",
        "run_length_encode",
        "run-length encode",
        "reduction",
    ),
    (r"DeviceBatchMemcpy\w*|MultiBlockBatchMemcpy\w*", "batch memcpy", "batch memcpy", "copy"),
)
WORDS = (
    ("radix_sort", "sort"),
    ("merge_sort", "sort"),
    ("onesweep", "sort"),
    ("block_sort", "sort"),
    ("scan", "reduction"),
    ("reduce", "reduction"),
    ("partition", "scatter_gather"),
    ("select", "scatter_gather"),
    ("transform", "pointwise"),
    ("histogram", "reduction"),
    ("sort", "sort"),
)


def decode(name: str) -> KernelId | None:
    cpp = _cpp.parse(name) if rx(r"\b(?:hip)?cub::").search(name[:100]) else None
    if not cpp or not rx(r"(?:^|::)(?:hip)?cub(?:::|$)").search(cpp.scope):
        return None
    r = NameParser(name, "cub", "documented")
    r.put("cub", "template", "cub", "a primitive of CUB")
    entry = next((entry for entry in KERNELS if rx(entry[0]).fullmatch(cpp.base)), None)
    if not entry:
        return r.done("other", f"cub {cpp.base.removesuffix('Kernel')}")
    _, op, short, role = entry
    r.put(cpp.base, "op", f"cub {op}", "what the primitive does")
    return r.done(role, f"{short}{_types(cpp)}")


def _types(cpp: _cpp.Cpp) -> str:
    """Key and value types of a sort, element type of a scan, in words."""
    if cpp.base.startswith("DeviceRadixSort"):
        policy = _cpp.inside(cpp.arg(0), "DeviceRadixSortPolicy")
        key, value = (_dtypes.cpp(text) for text in policy[:2]) if len(policy) > 2 else (None, None)
        return f" ({key} keys, {value} values)" if key and value else ""
    if cpp.base.startswith("DeviceScanKernel"):
        dtype = _dtypes.cpp(next((text for text in cpp.args if text.endswith("*")), ""))
        return f" {dtype}" if dtype else ""
    return ""


def _primitive(library: str, name: str) -> KernelId | None:
    """rocPRIM and Thrust: one entry function for everything, so the template's first arguments are
    searched too.
    """
    if not rx(rf"(?:void )?{library}::").match(name):
        return None
    cpp = _cpp.parse(name)
    r = NameParser(name, library, "documented")
    r.put(library, "template", library, "a device-wide primitive")
    text = f"{cpp.base} {cpp.arg(0)} {cpp.arg(2)[:200]}"
    word, role = next((entry for entry in WORDS if entry[0] in text), ("", "other"))
    short = f"{library} {word.replace('_', ' ')}".strip()
    if word:
        r.put(word, "op", short, "what the primitive does", "inferred")
    return r.done(role, short)


FAMILIES = (
    Family(name="cub", decode=decode, order=33),
    Family(name="rocprim", decode=partial(_primitive, "rocprim"), order=33),
    Family(name="thrust", decode=partial(_primitive, "thrust"), order=33),
)
