"""How each toolkit spells a data type, and the one word used here for it."""

from __future__ import annotations

from foretrace.families._reading import rx

CPP = {
    "float": "f32",
    "double": "f64",
    "int": "i32",
    "long": "i64",
    "long long": "i64",
    "short": "i16",
    "bool": "bool",
    "signed char": "i8",
    "unsigned char": "u8",
    "unsigned short": "u16",
    "unsigned int": "u32",
    "unsigned": "u32",
    "unsigned long": "u64",
    "unsigned long long": "u64",
    "int8_t": "i8",
    "uint8_t": "u8",
    "int64_t": "i64",
    "__half": "f16",
    "half": "f16",
    "c10::Half": "f16",
    "cutlass::half_t": "f16",
    "_Float16": "f16",
    "at::Half": "f16",
    "__fp16": "f16",
    "ck::half_t": "f16",
    "sycl::half": "f16",
    "nv_half": "f16",
    "__nv_bfloat16": "bf16",
    "nv_bfloat16": "bf16",
    "c10::BFloat16": "bf16",
    "at::BFloat16": "bf16",
    "cutlass::bfloat16_t": "bf16",
    "__hip_bfloat16": "bf16",
    "hip_bfloat16": "bf16",
    "std::bfloat16_t": "bf16",
    "__bf16": "bf16",
    "cutlass::tfloat32_t": "tf32",
    "c10::complex<float>": "c64",
    "c10::complex<double>": "c128",
    "c10::Float8_e4m3fn": "e4m3",
    "c10::Float8_e5m2": "e5m2",
    "__nv_fp8_e4m3": "e4m3",
    "__nv_fp8_e5m2": "e5m2",
    "cutlass::float_e4m3_t": "e4m3",
    "cutlass::float_e5m2_t": "e5m2",
    "c10::Float8_e4m3fnuz": "e4m3fnuz",
    "c10::Float8_e5m2fnuz": "e5m2fnuz",
    "thrust::complex<float>": "c64",
    "thrust::complex<double>": "c128",
    "cuComplex": "c64",
    "cuDoubleComplex": "c128",
}

# Words inside library names (cuBLAS, CUTLASS, xmma, MIOpen, Triton).
WORDS = {
    "fp16": "f16",
    "f16": "f16",
    "bf16": "bf16",
    "fp32": "f32",
    "f32": "f32",
    "f64": "f64",
    "fp64": "f64",
    "tf32": "tf32",
    "int8": "i8",
    "s8": "i8",
    "i8": "i8",
    "u8": "u8",
    "int32": "i32",
    "s32": "i32",
    "i32": "i32",
    "s4": "i4",
    "u4": "u4",
    "e4m3": "e4m3",
    "e5m2": "e5m2",
    "e2m1": "e2m1",
    "e3m2": "e3m2",
    "e2m3": "e2m3",
    "b1": "b1",
    "cf32": "c64",
    "cf64": "c128",
    "void": "void",
}

ACCUMULATOR = {
    "s": "f32",
    "h": "f16",
    "d": "f64",
    "i": "i32",
    "c": "c64",
    "z": "c128",
    "gc": "c64",
    "gz": "c128",
}

# Itanium-mangled built-in types.
MANGLED = {
    "f": "f32",
    "d": "f64",
    "i": "i32",
    "l": "i64",
    "x": "i64",
    "s": "i16",
    "a": "i8",
    "h": "u8",
    "b": "bool",
    "j": "u32",
    "m": "u64",
    "y": "u64",
    "DF16_": "f16",
    "DF16b": "bf16",
    "Dh": "f16",
}


def cpp(text: str) -> str | None:
    """The type behind a C++ spelling, pointers and `const` ignored; None for anything else."""
    plain = rx(r"\bconst\b|[*&]").sub("", text).strip() if len(text) < 80 else ""
    return CPP.get(plain)
