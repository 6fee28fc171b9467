"""The rest of ATen: pooling, losses, sorting, scans, embedding gradients, resampling.

The function's name is the op. A kernel of `at::native` that no table knows keeps its function name;
its role comes from the words of that name.
"""

from __future__ import annotations

from foretrace.names.families import _cpp, _words
from foretrace.names.families._parser import KernelId, NameParser, family, rx

# role, short name ({dtype} is a field), op, pattern of the function
KERNELS = r"""
    reduction       max_pool2d fwd {dtype}  max_pool2d_with_indices  max_pool_forward_n(?:chw|hwc)
    reduction       max_pool2d bwd {dtype}  max_pool2d_with_indices_backward
        max_pool_backward_n(?:chw|hwc)
    reduction       avg_pool2d fwd {dtype}  avg_pool2d  avg_pool2d_out_cuda_frame\w*
    reduction       avg_pool2d bwd {dtype}  avg_pool2d_backward
        avg_pool2d_backward_out_cuda_frame\w*
    reduction       adaptive_avg_pool bwd {dtype}  _adaptive_avg_pool2d_backward
        (?:atomic_)?adaptive_average_gradinput\w*|(?:atomic_)?adaptive_average_pool_backward\w*
    reduction       adaptive_avg_pool fwd {dtype}  _adaptive_avg_pool2d  adaptive_average_pool\w*
    scatter_gather  upsample bwd {dtype}  -  upsample_([a-z]+\dd)_backward\w*
    scatter_gather  upsample fwd {dtype}  -  upsample_([a-z]+\dd)\w*
    reduction       nll_loss fwd {dtype}  nll_loss_forward  nll_loss_forward\w*
        |cunn_ClassNLLCriterion_updateOutput\w*
    scatter_gather  nll_loss bwd {dtype}  nll_loss_backward  nll_loss_backward\w*
        |cunn_ClassNLLCriterion_updateGradInput\w*
    scatter_gather  embedding bwd: {template}  embedding_dense_backward  compute_grad_weight\w*
        |sum_and_scatter|krn_partials_per_segment|krn_partial_segment_offset
        |compute_num_of_partial_segments|write_num_of_segments
    scatter_gather  embedding_bag fwd {dtype}  _embedding_bag  EmbeddingBag_updateOutputKernel\w*
    scatter_gather  embedding_bag bwd {dtype}  _embedding_bag_backward  EmbeddingBag_\w+
    sort            sort (in block) {dtype}  -  bitonicSortKVInPlace|radixSortKVInPlace
        |warpMergeSortKVInPlace
    sort            sort: indices  sort  fill_reverse_indices_kernel|fill_index_and_segment_kernel
        |sort_postprocess_kernel
    sort            topk {dtype}  topk  gatherTopK|computeBlockwiseWithinKCounts|radixFindKthValues
        |computeBlockDigitCounts\w*|computeDigitCumSum
    sort            kthvalue {dtype}  -  gatherKthValue|gatherMedian
    scan            scan {dtype}  -  tensor_kernel_scan_(?:inner|outer)\w*
    pointwise       triu/tril {dtype}  -  triu_tril_kernel\w*
    scatter_gather  repeat_interleave: {template}  repeat_interleave  compute_cuda_kernel
    conv            depthwise conv fwd {dtype}  _conv_depthwise2d
        conv_depthwise\w{0,9}_forward_kernel\w*
    conv            depthwise conv bwd {dtype}  -  conv_depthwise\w*
    conv            {template}  -  (?:im2col|col2im|vol2col|col2vol)_\w{0,60}kernel\w*
    copy            {template}  -  (?:reflection|replication)_pad\w*
    scatter_gather  {template}  -  grid_sampler_\w+
    pointwise       {template}  -  lstm_cell_\w+|gru_cell_\w+
    reduction       {template}  -  cdist_\w+|pdist_\w+
    sort            searchsorted {dtype}  -  searchsorted_cuda_kernel|bucketize\w*
    sort            segmented sort {dtype}  -  segmented_sort\w*
"""
UNSCOPED = "compute_cuda_kernel"


def _decode(r: NameParser) -> KernelId | None:
    if "_ZN2at6native" in r.name[:20]:
        return _mangled_name(r)
    if not r.cpp.scope.startswith("at::native") and r.base != UNSCOPED:
        return None
    r.put(r.base, "template", r.base)
    # a bool among several types is a mask
    types = [r.arg(0)] if r.arg(0) == "bool" else [t for t in r.cpp.args if t != "bool"]
    dtype = r.read(next(filter(_cpp.dtype, types), ""), "dtype")
    row = r.row(KERNELS)
    if not row:
        return r.done(_words.role(r.base), "", _words.plain(r.base), dtype)
    role, short, op = row
    op = op or _upsample(r.base) or _triangle(r.cpp)
    r.put(r.base, "op", op and f"aten::{op}", certainty="inferred")
    return r.done(role, short.replace("triu/tril", op or "triu/tril"))


def _triangle(cpp: _cpp.Cpp) -> str:
    """`triu_tril_kernel<T, index, upper, …>`."""
    upper = _cpp.boolean(cpp.arg(2)) if cpp.base == "triu_tril_kernel" else None
    return "" if upper is None else "triu" if upper else "tril"


def _upsample(function: str) -> str:
    found = rx(r"(upsample_[a-z]+\dd)(_backward)?\w*").fullmatch(function)
    return f"{found[1]}{found[2] or ''}" if found else ""


def _mangled_name(r: NameParser) -> KernelId | None:
    words = _cpp.identifiers(r.name)
    if words[:2] != ("at", "native") or len(words) < 3:
        return None
    r.put("_Z", "mangled", True)
    r.put(words[2], "template", words[2])
    role = "pointwise" if "elementwise" in words[2] else _words.role(words[2])
    return r.done(role, "", _words.plain(words[2]), *words[3:4])


_HINT = f"_ZN2at6native|at::native|{UNSCOPED}"
FAMILY = family("aten_other", _decode, 49, "op dtype", "documented", hint=_HINT)
