"""What the words of a plain function name tell: a role and a readable form; libraries named so."""

from __future__ import annotations

from functools import lru_cache

from foretrace.names.families import _cpp, _dtypes
from foretrace.names.families._parser import NameParser, by_role, joined, rx, word_set
from foretrace.schema.kernel import Family, KernelId

# The first line with a word in the name decides, so that `attention_reduce` is attention and
# `rms_norm_quant` a norm. Words are matched from their beginning: `_norm_` is the word norm,
# `_layernorm` any word that begins so.
_ROLES = """
    comms: _allreduce _all_reduce_ _allgather _all_gather_ _reducescatter _reduce_scatter_
        _alltoall _all_to_all_ _nccl _rccl _nvshmem _cross_device_reduce_ _multimem
        _send_recv_ _sendrecv _oneshot _twoshot _deep_ep_ _barrier_
    attention: _attention _attn _fmha _flash_ _mha_ _mla_ _sdpa_ _paged_ _pagedattention
        _unified_attention_ _batchprefill _batch_prefill_ _batch_decode_ _single_decode_
        _single_prefill_
    normalization: _rmsnorm _rms_norm_ _layernorm _layer_norm_ _groupnorm _group_norm_
        _batchnorm _batch_norm_ _instance_norm_ _rms_ _ln_fwd_ _ln_bwd_ _ln_ _norm_
        _l2norm_
    softmax: _softmax _soft_max_ _cross_entropy_ _crossentropy _logsumexp
    optimizer: _adam _adagrad _sgd_ _lamb_ _lion_ _optimizer _adafactor _muon_
    scatter_gather: _finalize_matmul_
    conv: _conv_ _conv1d _conv2d _conv3d _convolution _winograd _dgrad _wgrad _fprop
        _im2col _im2d2_col_ _igemm
    gemv: _gemv
    gemm: _gemm _sgemm _hgemm _dgemm _matmul _mm_ _bmm_ _grouped_mm_ _marlin _fused_moe_
        _moe_gemm_ _w8a8_ _linear_ _flatmm
    sort: _sort _topk _top_k_ _argsort _radix _merge_sort_
    random: _dropout _philox _random _bernoulli _multinomial _sampling _rng_
    scatter_gather: _embedding _gather _scatter _index _indices _permute _kv_cache_
        _kvcache _cache_ _routing _router _moe_align_ _page_ _page_table_ _lookup
        _bitmatrix _unpermute _nonzero
    reduction: _reduce _reduction _sum_ _cumsum _mean_ _argmax_ _argmin_ _amax_ _absmax
        _max_ _min_ _scan_ _loss _jsd_ _kldiv_ _kl_ _histogram _var_ _pool
    copy: _copy _memcpy _memset _fill _transpose _cast_ _cat_ _concat _pack _contiguous
        _zero_ _layout_
    pointwise: _act_and_mul_ _silu _gelu _swiglu _geglu _relu _sigmoid _tanh_ _rope
        _rotary _mrope _add_ _mul_ _quant _dequant _scale _scaled_ _elementwise _pointwise
        _activation _act_ _exp_ _div_ _where_ _clamp _mask_ _bias_ _glu_
"""
_SPLIT = r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*[a-z]*|[A-Z]+|\d+"
_NOISE = r"^_+|(?<!_)_+$|^(?:triton|void)_|_(?:kernel|cuda|hip|triton|gpu)(?=_|$)"


@lru_cache(maxsize=4096)
def role(name: str) -> str:
    """The role that the words of a function's name suggest, or `other`."""
    words = [word.lower() for word in rx(_SPLIT).findall(name[:400])]
    text = f"_{'_'.join(words)}_"
    fits = (role for role, marks in by_role(_ROLES) if any(mark in text for mark in marks))
    return next(fits, "other")


def plain(name: str) -> str:
    """`_topk_forward_kernel` -> `topk fwd`."""
    text = rx(_NOISE).sub("", rx(_NOISE).sub("", name[:400]))
    text = text.replace("forward", "fwd").replace("backward", "bwd").replace("Kernel", "")
    return rx(r"_(fwd|bwd)(?=_|$)").sub(r" \1", text).strip("_ ") or name[:60]


def library(namespace: str, lib: str, states: str) -> Family:
    """A family of literal C++ names: everything below one namespace, which names the family."""

    def decode(name: str) -> KernelId | None:
        cpp = _cpp.parse(name) if f"{namespace}::" in name[:200] else None
        ours = cpp is not None and cpp.scope.split("::")[0] == namespace
        return literal(name, cpp, namespace, lib) if cpp and ours else None

    return Family(name=namespace, decode=decode, order=34, states=word_set(states))


def literal(name: str, cpp: _cpp.Cpp, family: str, lib: str) -> KernelId:
    """Role and short name from the function's words; the type from its template arguments."""
    r = NameParser(name, family)
    readable = plain(cpp.base)
    r.note(cpp.base, f"the name is literal: {readable}")
    r.put(cpp.scope.split("::")[0] or cpp.base, "lib", lib, lib)
    types = ((text, _dtypes.cpp(text)) for text in cpp.args)
    stated = (entry for entry in types if entry[1] not in (None, "bool", "i32", "u32"))
    text, dtype = next(stated, ("", ""))
    r.put(text, "dtype", dtype, "works on {}")
    known = role(cpp.base)
    known = known if known != "other" else role(f"{cpp.scope}_{cpp.base}")
    return r.done(known, joined(readable, dtype))
