"""AMD's Composable Kernel and CK Tile. Names mostly arrive mangled; the kernel's identifier tells
what it does.
"""

from __future__ import annotations

from foretrace.families import _cpp, _words
from foretrace.families._parser import NameParser, rx
from foretrace.schema.kernel import Family, KernelId

# words of the kernel's identifier -> (op, what, role); the first that fits wins
KERNELS = (
    (r"conv\w*bwd_weight|conv_wrw", "conv_wgrad", "conv wgrad", "conv"),
    (r"conv\w*bwd_data", "conv_dgrad", "conv dgrad", "conv"),
    (r"conv\w*_fwd|convolution_forward", "conv_fprop", "conv fprop", "conv"),
    (r"conv", "conv", "conv", "conv"),
    (r"batchnorm", "batch_norm", "batch_norm", "normalization"),
    (r"layernorm|normalization", "layer_norm", "layer_norm", "normalization"),
    (r"softmax", "softmax", "softmax", "softmax"),
    (r"attention|fmha", "attention", "attention", "attention"),
    (r"gemm|contraction|flatmm", "gemm", "gemm", "gemm"),
    (r"reduce", "reduce", "reduce", "reduction"),
    (r"elementwise", "elementwise", "elementwise", "pointwise"),
    (r"permute|transpose", "transpose", "transpose", "copy"),
)
TILE_KERNELS = (
    (r"(?:Add)?Rmsnorm2d\w*", "rms_norm", "rms_norm", "normalization"),
    (r"Layernorm2d\w*", "layer_norm", "layer_norm", "normalization"),
    (r"FmhaFwd\w*|UnifiedAttention\w*", "sdpa_fwd", "fmha fwd", "attention"),
    (r"FmhaBwd\w*", "sdpa_bwd", "fmha bwd", "attention"),
    (r"(?:Fused)?Moe\w*Gemm\w*|\w*Gemm\w*Kernel|FlatmmKernel", "gemm", "gemm", "gemm"),
    (r"MoeSorting\w*", "sort", "moe sort", "sort"),
    (r"TopkSoftmax\w*", "topk + softmax", "topk softmax", "softmax"),
    (r"\w*Reduce\w*", "reduce", "reduce", "reduction"),
    (r"Moe\w*Smoothquant\w*|Smoothquant\w*", "quantize", "quantize", "pointwise"),
)


def decode(name: str) -> KernelId | None:
    mangled = _cpp.is_mangled(name)
    if not rx(r"_ZN2ck|_ZN7ck_tile|(?:void )?(?:std::\S+ )?ck(?:_tile)?::").match(name[:200]):
        return None
    words = _cpp.identifiers(name) if mangled else tuple(rx(r"\w+").findall(name))
    r = NameParser(name, "composable_kernel")
    tile = "ck_tile" in words[:2]
    kernel = (
        _tile_kernel(words)
        if tile
        else next((word for word in words if word.startswith("kernel_")), "")
    )
    if mangled:
        r.put("_Z", "mangled", True, "the name stayed mangled", "documented")
    lib = "CK Tile" if tile else "Composable Kernel"
    r.put("ck_tile" if tile else "ck", "lib", lib, "AMD's kernel library", "documented")
    if kernel and not tile:
        r.put(kernel, "kernel", kernel, "the kernel")
    return _tile(r, kernel, name) if tile else _plain(r, kernel)


def _tile_kernel(words: tuple[str, ...]) -> str:
    return next(
        (word for word in words[2:] if any(rx(entry[0]).fullmatch(word) for entry in TILE_KERNELS)),
        "",
    )


def _plain(r: NameParser, kernel: str) -> KernelId:
    entry = next((entry for entry in KERNELS if rx(entry[0]).search(kernel)), None)
    if not entry:
        return r.done(_words.role(kernel), kernel or "CK")
    _, op, short, role = entry
    r.put(kernel, "op", op, "from the kernel's name")
    kind = next((kind for kind in ("xdl", "wmma", "dl") if f"_{kind}" in kernel), "")
    return r.done(role, f"{short} (CK {kind})".replace(" )", ")"))


def _tile(r: NameParser, kernel: str, name: str) -> KernelId:
    entry = next((entry for entry in TILE_KERNELS if rx(entry[0]).fullmatch(kernel)), None)
    if not entry:
        return r.done("other", "CK Tile")
    r.put(kernel, "op", entry[1], "from the kernel's name")
    problem = next((word for word in _cpp.identifiers(name) if word.endswith("Problem")), "")
    dtype = _cpp.type_after(name, problem) if problem else None
    r.put(problem, "dtype_in", dtype, "type of the input: {}")
    return r.done(entry[3], f"{entry[2]} {dtype or ''}".strip())


FAMILY = Family(name="composable_kernel", decode=decode, order=20)
