"""The rest of ATen: pooling, losses, sorting, scans, embedding gradients, resampling. The
function's name is the op.

A kernel of `at::native` that no table knows keeps its function name; its role comes from the words
of that name.
"""

from __future__ import annotations

import re

from foretrace.families import _cpp, _dtypes, _words
from foretrace.families._parser import NameParser, rx
from foretrace.schema.kernel import Family, KernelId

# pattern of the function -> (op, short, role); {} takes the data type
KERNELS = (
    (
        r"max_pool_forward_n(?:chw|hwc)",
        "aten::max_pool2d_with_indices",
        "max_pool2d fwd {}",
        "reduction",
    ),
    (
        r"max_pool_backward_n(?:chw|hwc)",
        "aten::max_pool2d_with_indices_backward",
        "max_pool2d bwd {}",
        "reduction",
    ),
    (r"avg_pool2d_out_cuda_frame\w*", "aten::avg_pool2d", "avg_pool2d fwd {}", "reduction"),
    (
        r"avg_pool2d_backward_out_cuda_frame\w*",
        "aten::avg_pool2d_backward",
        "avg_pool2d bwd {}",
        "reduction",
    ),
    (
        r"(?:atomic_)?adaptive_average_gradinput\w*|(?:atomic_)?adaptive_average_pool_backward\w*",
        "aten::_adaptive_avg_pool2d_backward",
        "adaptive_avg_pool bwd {}",
        "reduction",
    ),
    (
        r"adaptive_average_pool\w*",
        "aten::_adaptive_avg_pool2d",
        "adaptive_avg_pool fwd {}",
        "reduction",
    ),
    (r"upsample_([a-z]+\dd)_backward\w*", "", "upsample bwd {}", "scatter_gather"),
    (r"upsample_([a-z]+\dd)\w*", "", "upsample fwd {}", "scatter_gather"),
    (
        r"nll_loss_forward\w*|cunn_ClassNLLCriterion_updateOutput\w*",
        "aten::nll_loss_forward",
        "nll_loss fwd {}",
        "reduction",
    ),
    (
        r"nll_loss_backward\w*|cunn_ClassNLLCriterion_updateGradInput\w*",
        "aten::nll_loss_backward",
        "nll_loss bwd {}",
        "scatter_gather",
    ),
    (
        r"compute_grad_weight\w*|sum_and_scatter|krn_partials_per_segment|krn_partial_segment_offset|"
        r"compute_num_of_partial_segments|write_num_of_segments",
        "aten::embedding_dense_backward",
        "embedding bwd: {base}",
        "scatter_gather",
    ),
    (
        r"EmbeddingBag_updateOutputKernel\w*",
        "aten::_embedding_bag",
        "embedding_bag fwd {}",
        "scatter_gather",
    ),
    (
        r"EmbeddingBag_\w+",
        "aten::_embedding_bag_backward",
        "embedding_bag bwd {}",
        "scatter_gather",
    ),
    (
        r"bitonicSortKVInPlace|radixSortKVInPlace|warpMergeSortKVInPlace",
        "",
        "sort (in block) {}",
        "sort",
    ),
    (
        r"fill_reverse_indices_kernel|fill_index_and_segment_kernel|sort_postprocess_kernel",
        "aten::sort",
        "sort: indices",
        "sort",
    ),
    (
        r"gatherTopK|computeBlockwiseWithinKCounts|radixFindKthValues|computeBlockDigitCounts\w*|computeDigitCumSum",
        "aten::topk",
        "topk {}",
        "sort",
    ),
    (r"gatherKthValue|gatherMedian", "", "kthvalue {}", "sort"),
    (r"tensor_kernel_scan_(?:inner|outer)\w*", "", "scan {}", "reduction"),
    (r"triu_tril_kernel\w*", "", "triu/tril {}", "pointwise"),
    (
        r"compute_cuda_kernel",
        "aten::repeat_interleave",
        "repeat_interleave: {base}",
        "scatter_gather",
    ),
    (
        r"conv_depthwise\w*_forward_kernel\w*",
        "aten::_conv_depthwise2d",
        "depthwise conv fwd {}",
        "conv",
    ),
    (r"conv_depthwise\w*", "", "depthwise conv bwd {}", "conv"),
    (r"(?:im2col|col2im|vol2col|col2vol)_\w*kernel\w*", "", "{base}", "conv"),
    (r"(?:reflection|replication)_pad\w*", "", "{base}", "copy"),
    (r"grid_sampler_\w+", "", "{base}", "scatter_gather"),
    (r"lstm_cell_\w+|gru_cell_\w+", "", "{base}", "pointwise"),
    (r"cdist_\w+|pdist_\w+", "", "{base}", "reduction"),
    (r"searchsorted_cuda_kernel|bucketize\w*", "", "searchsorted {}", "sort"),
    (r"segmented_sort\w*", "", "segmented sort {}", "sort"),
)
UNSCOPED = ("compute_cuda_kernel",)


def decode(name: str) -> KernelId | None:
    if (
        "at::native" in name[:200]
        or "_ZN2at6native" in name[:20]
        or any(word in name[:60] for word in UNSCOPED)
    ):
        return _decode(name)
    return None


def _decode(name: str) -> KernelId | None:
    if _cpp.is_mangled(name):
        return _mangled_name(name)
    cpp = _cpp.parse(name)
    if not cpp.scope.startswith("at::native") and cpp.base not in UNSCOPED:
        return None
    r = NameParser(name, "aten_other", "documented")
    r.put(cpp.base, "template", cpp.base, "ATen's kernel")
    types = [(text, dtype) for text in cpp.args if (dtype := _dtypes.cpp(text)) and dtype != "bool"]
    if types:
        r.put(types[0][0], "dtype", types[0][1], f"works on {types[0][1]}")
    dtype = types[0][1] if types else ""
    for pattern, op, short, role in KERNELS:
        if found := rx(pattern).fullmatch(cpp.base):
            op = op or _upsample(found)
            r.put(cpp.base, "op", op, "the op that launches it", "inferred")
            return r.done(role, short.format(dtype, base=cpp.base).strip())
    return r.done(_words.role(cpp.base), f"{_words.plain(cpp.base)} {dtype}".strip())


def _upsample(found: re.Match[str]) -> str:
    if not found[0].startswith("upsample_"):
        return ""
    return f"aten::upsample_{found[1]}{'_backward' if 'backward' in found[0] else ''}"


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


FAMILY = Family(name="aten_other", decode=decode, order=49)
