"""How each toolkit spells a data type, and the one word used here for it."""

from __future__ import annotations

from foretrace.names.families._parser import NameParser, rx


def by_spelling(table: str) -> dict[str, str]:
    """Spelling to type, from entries such as `f16 = __half, c10::Half`."""
    rows = (entry.split(" = ") for entry in table.strip().replace(";", "\n").splitlines())
    return {word: dtype.strip() for dtype, words in rows for word in words.split(", ")}


CPP = by_spelling("""
    f32 = float; f64 = double; i32 = int; i16 = short; bool = bool; u16 = unsigned short
    i64 = long, long long, int64_t; i8 = signed char, int8_t; u8 = unsigned char, uint8_t
    u32 = unsigned int, unsigned; u64 = unsigned long, unsigned long long
    f16 = __half, half, c10::Half, cutlass::half_t, _Float16, at::Half, __fp16
    f16 = ck::half_t, sycl::half, nv_half
    bf16 = __nv_bfloat16, nv_bfloat16, c10::BFloat16, at::BFloat16, cutlass::bfloat16_t
    bf16 = __hip_bfloat16, hip_bfloat16, std::bfloat16_t, __bf16
    tf32 = cutlass::tfloat32_t
    c64 = c10::complex<float>, thrust::complex<float>, cuComplex
    c128 = c10::complex<double>, thrust::complex<double>, cuDoubleComplex
    e4m3 = c10::Float8_e4m3fn, __nv_fp8_e4m3, cutlass::float_e4m3_t
    e5m2 = c10::Float8_e5m2, __nv_fp8_e5m2, cutlass::float_e5m2_t
    e4m3fnuz = c10::Float8_e4m3fnuz; e5m2fnuz = c10::Float8_e5m2fnuz
""")
# Words inside library names (cuBLAS, CUTLASS, xmma, MIOpen, Triton).
WORDS = by_spelling("""
    f16 = fp16, f16; bf16 = bf16; f32 = fp32, f32; f64 = f64, fp64; tf32 = tf32
    i8 = int8, s8, i8; u8 = u8; i32 = int32, s32, i32; i4 = s4; u4 = u4; b1 = b1
    e4m3 = e4m3; e5m2 = e5m2; e2m1 = e2m1, f4; e3m2 = e3m2; e2m3 = e2m3
    c64 = cf32; c128 = cf64; void = void
""")
# The letter before `gemm` in the names of cuBLAS and CUTLASS.
ACCUMULATOR = by_spelling("f32 = s; f16 = h; f64 = d; i32 = i; c64 = c, gc; c128 = z, gz")
# Itanium-mangled built-in types.
MANGLED = by_spelling("""
    f32 = f; f64 = d; i32 = i; i64 = l, x; i16 = s; i8 = a; u8 = h; bool = b; u32 = j; u64 = m, y
    f16 = DF16_, Dh; bf16 = DF16b
""")


def cpp(text: str) -> str | None:
    """The type behind a C++ spelling, pointers and `const` ignored; None for anything else."""
    plain = rx(r"\bconst\b|[*&]").sub("", text).strip() if len(text) < 80 else ""
    return CPP.get(plain)


def put(r: NameParser, text: str, field: str, meaning: str, certainty: str = "") -> str:
    """State the type behind a C++ spelling, if it is one; returns it, or ""."""
    dtype = cpp(text)
    r.put(text, field, dtype, meaning, certainty)
    return dtype or ""
