"""Libraries whose kernel names are literal: FlashInfer, Transformer Engine, Apex, FBGEMM. The function's words tell."""

from __future__ import annotations

from foretrace.families import _cpp, _dtypes, _words
from foretrace.families._reading import Reading, rx
from foretrace.schema.kernel import Family, KernelId

# FBGEMM: pattern of the function -> (op, short, role)
FBGEMM = (
    (r"permute_2D_lengths_kernel", "jagged permute", "permute 2D lengths", "scatter_gather"),
    (r"permute_\w+", "jagged permute", "", "scatter_gather"),
    (r"split_embedding(?:_\w+)?_forward\w*", "embedding forward", "embedding fwd (fbgemm)", "scatter_gather"),
    (r"split_embedding_backward\w*", "embedding backward + optimizer", "embedding bwd (fbgemm)", "scatter_gather"),
    (r"split_embedding\w*|dense_embedding\w*|batched_embedding\w*", "embedding", "embedding (fbgemm)",
        "scatter_gather"),
    (r"bounds_check_indices\w*|linearize_index\w*|_?offsets_range\w*", "embedding indices", "", "scatter_gather"),
    (r"\w*(?:quantize|qparam|FP8rowwise|to_float|hfp8)\w*", "quantize", "", "pointwise"),
)
FBGEMM_UNSCOPED = (
    r"(?:void )?(?:split_embedding|dense_embedding|bounds_check_indices|linearize_index|permute_pooled_embs)\w*"
)
APEX = r"cuApplyLayerNorm|cuApplyRMSNorm|cuComputePartGradGammaBeta|cuComputeGradGammaBeta|cuComputeGradInput"
TE_WORDS = (("ln_fwd", "normalization"), ("ln_bwd", "normalization"), ("rmsnorm", "normalization"))


def decode_flashinfer(name: str) -> KernelId | None:
    cpp = _cpp.parse(name) if "flashinfer::" in name[:200] else None
    return _literal(name, cpp, "flashinfer", "FlashInfer") if cpp and cpp.scope.startswith("flashinfer") else None


def decode_te(name: str) -> KernelId | None:
    cpp = _cpp.parse(name) if "transformer_engine::" in name[:200] else None
    if not cpp or not cpp.scope.startswith("transformer_engine"):
        return None
    return _literal(name, cpp, "transformer_engine", "Transformer Engine")


def decode_apex(name: str) -> KernelId | None:
    if "multi_tensor_apply_kernel<" in name[:60]:
        cpp = _cpp.parse(name)
        if not cpp.scope and "TensorListMetadata" in cpp.arg(0):
            return _apex_list(name, cpp)
    if rx(rf"(?:void )?(?:{APEX})<").match(name):
        return _literal(name, _cpp.parse(name), "apex", "Apex")
    return None


def _apex_list(name: str, cpp: _cpp.Cpp) -> KernelId:
    r = Reading(name, "apex")
    functor = _cpp.leaf(cpp.arg(1))
    r.put(functor, "functor", functor, "the function applied to the lists", "inferred")
    lists = _cpp.integer((_cpp.inside(cpp.arg(0), "TensorListMetadata") or ("",))[-1])
    if lists is not None:
        r.put("TensorListMetadata", "lists", lists, f"{lists} tensor lists at once", "inferred")
    dtype = _dtypes.cpp((_cpp.inside(cpp.arg(1), functor) or ("",))[0])
    if dtype:
        r.put(dtype, "dtype", dtype, f"works on {dtype}", "inferred")
    word = functor.removesuffix("Functor")
    role = "reduction" if "Norm" in word else "optimizer"
    return r.done(role, f"apex {word} {dtype or ''}".strip())


def decode_fbgemm(name: str) -> KernelId | None:
    if "fbgemm_gpu::" not in name[:60] and not rx(FBGEMM_UNSCOPED).match(name):
        return None
    cpp = _cpp.parse(name)
    if not cpp.scope.startswith("fbgemm_gpu") and not rx(FBGEMM_UNSCOPED).match(cpp.base):
        return None
    plain = _words.plain(cpp.base)
    entry = next((entry for entry in FBGEMM if rx(entry[0]).fullmatch(cpp.base)), None)
    op, short, role = entry[1:] if entry else (plain, plain, _words.role(cpp.base))
    r = Reading(name, "fbgemm")
    r.put(cpp.base, "op", op, "the name is literal", "inferred")
    return r.done(role, short or plain)


def _literal(name: str, cpp: _cpp.Cpp, family: str, lib: str) -> KernelId:
    r = Reading(name, family)
    plain = _words.plain(cpp.base)
    r.put(cpp.base, "op", plain, "the name is literal", "inferred")
    r.put(cpp.scope.split("::")[0] or cpp.base, "lib", lib, lib, "inferred")
    types = ((text, _dtypes.cpp(text)) for text in cpp.args)
    found = next((entry for entry in types if entry[1] not in (None, "bool", "i32", "u32")), None)
    if found:
        r.put(found[0], "dtype", found[1], f"works on {found[1]}", "inferred")
    role = _words.role(cpp.base)
    role = role if role != "other" else _words.role(f"{cpp.scope}_{cpp.base}")
    return r.done(role, f"{plain} {found[1] if found else ''}".strip())


FAMILIES = (
    Family(
        name="flashinfer", decode=decode_flashinfer, order=34,
        examples={"void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)": {
            "lib": "FlashInfer", "dtype": "bf16"}},
    ),
    Family(
        name="transformer_engine", decode=decode_te, order=34,
        examples={
            "void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<P>(P)": {"lib": "Transformer Engine"},
        },
    ),
    Family(
        name="apex", decode=decode_apex, order=42,
        examples={
            "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, float, int>, float>(long)": {
                "functor": "AdamFunctor", "lists": 4,
            },
        },
    ),
    Family(
        name="fbgemm", decode=decode_fbgemm, order=39,
        examples={
            "void fbgemm_gpu::permute_2D_data_kernel<false, int, int, float>(int)": {"op": "jagged permute"},
            "void split_embedding_codegen_forward_weighted_kernel<c10::Half, c10::Half, float, false, long, 2ul>(P)": {
                "op": "embedding forward"},
        },
    ),
)
