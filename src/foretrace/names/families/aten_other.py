"""The rest of ATen: pooling, losses, sorting, scans, embedding gradients, resampling.

The function's name is the op. A kernel of `at::native` that no table knows keeps its function name;
its role comes from the words of that name.
"""

from __future__ import annotations

from foretrace.names.families import _cpp, _words
from foretrace.names.families._parser import NameParser, row_for, rx, word_set
from foretrace.schema.kernel import Family, KernelId

# role, short name ({} takes the data type), op, pattern of the function
KERNELS = r"""
    reduction       max_pool2d fwd {}  max_pool2d_with_indices  max_pool_forward_n(?:chw|hwc)
    reduction       max_pool2d bwd {}  max_pool2d_with_indices_backward
        max_pool_backward_n(?:chw|hwc)
    reduction       avg_pool2d fwd {}  avg_pool2d  avg_pool2d_out_cuda_frame\w*
    reduction       avg_pool2d bwd {}  avg_pool2d_backward  avg_pool2d_backward_out_cuda_frame\w*
    reduction       adaptive_avg_pool bwd {}  _adaptive_avg_pool2d_backward
        (?:atomic_)?adaptive_average_gradinput\w*|(?:atomic_)?adaptive_average_pool_backward\w*
    reduction       adaptive_avg_pool fwd {}  _adaptive_avg_pool2d  adaptive_average_pool\w*
    scatter_gather  upsample bwd {}  -  upsample_([a-z]+\dd)_backward\w*
    scatter_gather  upsample fwd {}  -  upsample_([a-z]+\dd)\w*
    reduction       nll_loss fwd {}  nll_loss_forward  nll_loss_forward\w*
        |cunn_ClassNLLCriterion_updateOutput\w*
    scatter_gather  nll_loss bwd {}  nll_loss_backward  nll_loss_backward\w*
        |cunn_ClassNLLCriterion_updateGradInput\w*
    scatter_gather  embedding bwd: {base}  embedding_dense_backward  compute_grad_weight\w*
        |sum_and_scatter|krn_partials_per_segment|krn_partial_segment_offset
        |compute_num_of_partial_segments|write_num_of_segments
    scatter_gather  embedding_bag fwd {}  _embedding_bag  EmbeddingBag_updateOutputKernel\w*
    scatter_gather  embedding_bag bwd {}  _embedding_bag_backward  EmbeddingBag_\w+
    sort            sort (in block) {}  -  bitonicSortKVInPlace|radixSortKVInPlace
        |warpMergeSortKVInPlace
    sort            sort: indices  sort  fill_reverse_indices_kernel|fill_index_and_segment_kernel
        |sort_postprocess_kernel
    sort            topk {}  topk  gatherTopK|computeBlockwiseWithinKCounts|radixFindKthValues
        |computeBlockDigitCounts\w*|computeDigitCumSum
    sort            kthvalue {}  -  gatherKthValue|gatherMedian
    scan            scan {}  -  tensor_kernel_scan_(?:inner|outer)\w*
    pointwise       triu/tril {}  -  triu_tril_kernel\w*
    scatter_gather  repeat_interleave: {base}  repeat_interleave  compute_cuda_kernel
    conv            depthwise conv fwd {}  _conv_depthwise2d
        conv_depthwise\w{0,9}_forward_kernel\w*
    conv            depthwise conv bwd {}  -  conv_depthwise\w*
    conv            {base}  -  (?:im2col|col2im|vol2col|col2vol)_\w{0,60}kernel\w*
    copy            {base}  -  (?:reflection|replication)_pad\w*
    scatter_gather  {base}  -  grid_sampler_\w+
    pointwise       {base}  -  lstm_cell_\w+|gru_cell_\w+
    reduction       {base}  -  cdist_\w+|pdist_\w+
    sort            searchsorted {}  -  searchsorted_cuda_kernel|bucketize\w*
    sort            segmented sort {}  -  segmented_sort\w*
"""
UNSCOPED = "compute_cuda_kernel"


def _decode(name: str) -> KernelId | None:
    if "_ZN2at6native" in name[:20]:
        return _mangled_name(name)
    if "at::native" not in name[:200] and UNSCOPED not in name[:60]:
        return None
    cpp = _cpp.parse(name)
    if not cpp.scope.startswith("at::native") and cpp.base != UNSCOPED:
        return None
    r = NameParser(name, "aten_other", "documented")
    r.put(cpp.base, "template", cpp.base, "ATen's kernel")
    # a bool among several types is a mask
    types = [cpp.arg(0)] if cpp.arg(0) == "bool" else [t for t in cpp.args if t != "bool"]
    dtype = _cpp.put_dtype(r, next(filter(_cpp.dtype, types), ""), "dtype", "works on {}")
    if row := row_for(KERNELS, cpp.base):
        role, short, op = row
        op = op or _upsample(cpp.base) or _triangle(cpp)
        short = short.replace("triu/tril", op or "triu/tril")
        r.put(cpp.base, "op", op and f"aten::{op}", "the op that launches it", "inferred")
        return r.done(role, short.format(dtype, base=cpp.base).strip())
    return r.done(_words.role(cpp.base), f"{_words.plain(cpp.base)} {dtype}".strip())


def _triangle(cpp: _cpp.Cpp) -> str:
    """`triu_tril_kernel<T, index, upper, …>`."""
    upper = _cpp.boolean(cpp.arg(2)) if cpp.base == "triu_tril_kernel" else None
    return "" if upper is None else "triu" if upper else "tril"


def _upsample(function: str) -> str:
    found = rx(r"(upsample_[a-z]+\dd)(_backward)?\w*").fullmatch(function)
    return f"{found[1]}{found[2] or ''}" if found else ""


def _mangled_name(name: str) -> KernelId | None:
    words = _cpp.identifiers(name)
    if words[:2] != ("at", "native") or len(words) < 3:
        return None
    r = NameParser(name, "aten_other", "documented")
    r.put("_Z", "mangled", True, "the name stayed mangled")
    r.put(words[2], "template", words[2], "ATen's kernel")
    functor = words[3] if len(words) > 3 else ""
    role = "pointwise" if "elementwise" in words[2] else _words.role(words[2])
    return r.done(role, " ".join([_words.plain(words[2]), functor]).strip())


FAMILY = Family("aten_other", _decode, 49, word_set("op dtype"))
