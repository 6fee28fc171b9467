"""Element types as a trace writes them: how many bytes each takes, and which type an operation on
several gives.

Traces carry the C++ names (`c10::BFloat16`, `long int`). The short names of kernel names (`bf16`,
`fp32`) are known too, because only there is the element type of a tensor list stated.
"""

from __future__ import annotations

from collections.abc import Iterable

SIZES: dict[str, int] = {
    "bool": 1, "unsigned char": 1, "signed char": 1, "char": 1, "c10::quint8": 1, "c10::qint8": 1,
    "short int": 2, "short": 2, "unsigned short": 2, "short unsigned int": 2,
    "int": 4, "unsigned int": 4, "c10::qint32": 4,
    "long int": 8, "long": 8, "long long": 8, "__int64": 8,
    "unsigned long": 8, "long unsigned int": 8, "unsigned long long": 8,
    "c10::Half": 2, "c10::BFloat16": 2, "float": 4, "double": 8,
    "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1, "c10::Float8_e4m3fnuz": 1,
    "c10::Float8_e5m2fnuz": 1, "c10::Float8_e8m0fnu": 1, "c10::Float4_e2m1fn_x2": 1,
    "c10::complex<c10::Half>": 4, "c10::complex<float>": 8, "c10::complex<double>": 16,
    "OpaqueType<1>": 1, "OpaqueType<2>": 2, "OpaqueType<4>": 4, "OpaqueType<8>": 8,
    "OpaqueType<16>": 16, "fp8": 1, "bf16": 2, "fp16": 2, "fp32": 4, "tf32": 4, "fp64": 8,
    "int8": 1, "int32": 4, "int64": 8,
}  # fmt: skip

# c10::ScalarType by its number, as `Concrete Inputs` shows a dtype argument.
SCALAR_TYPES: dict[int, str] = {
    0: "unsigned char", 1: "signed char", 2: "short int", 3: "int", 4: "long int", 5: "c10::Half",
    6: "float", 7: "double", 8: "c10::complex<c10::Half>", 9: "c10::complex<float>",
    10: "c10::complex<double>", 11: "bool", 15: "c10::BFloat16", 23: "c10::Float8_e5m2",
    24: "c10::Float8_e4m3fn", 25: "c10::Float8_e5m2fnuz", 26: "c10::Float8_e4m3fnuz",
    27: "short unsigned int", 28: "unsigned int", 29: "long unsigned int",
    44: "c10::Float8_e8m0fnu", 45: "c10::Float4_e2m1fn_x2",
}  # fmt: skip

# Arguments that are not tensors, as a trace types them; an absent optional argument has type "".
NOT_TENSORS = frozenset(
    {"", "Scalar", "ScalarList", "TensorList", "GenericList", "None", "Device", "Stream"}
)

BOOL, INTEGER, FLOATING, COMPLEX = range(4)
_FLOATING = frozenset(
    {"float", "double", "bf16", "fp16", "fp32", "tf32", "fp64", "fp8", "c10::Half", "c10::BFloat16"}
)


def category(type_name: str) -> int:
    """`BOOL` < `INTEGER` < `FLOATING` < `COMPLEX`: the highest among the operands decides."""
    if type_name == "bool":
        return BOOL
    if "complex" in type_name:
        return COMPLEX
    return FLOATING if type_name in _FLOATING or type_name.startswith("c10::Float") else INTEGER


def promote(types: Iterable[str]) -> str:
    """The type in which operands of these types are computed, all having dimensions; "" for none.

    The widest of the highest category; bfloat16 with half gives float, and unsigned with signed
    bytes gives shorts.
    """
    found = sorted(set(types), key=lambda name: (category(name), SIZES.get(name, 0)))
    if not found:
        return ""
    top = [name for name in found if category(name) == category(found[-1])]
    if {"c10::Half", "c10::BFloat16"} <= set(top) and SIZES.get(top[-1]) == 2:
        return "float"
    if {"unsigned char", "signed char"} <= set(top) and SIZES.get(top[-1]) == 1:
        return "short int"
    return top[-1]


def with_number(type_name: str, number_category: int) -> str:
    """The type of a tensor and a plain number, which decides only if its category is higher."""
    if type_name and category(type_name) >= number_category:
        return type_name
    return ("bool", "long int", "float", "c10::complex<float>")[number_category]


_SHORT = {
    "c10::BFloat16": "bf16",
    "c10::Half": "f16",
    "float": "f32",
    "double": "f64",
    "long int": "i64",
    "int": "i32",
    "unsigned char": "u8",
    "signed char": "i8",
    "c10::Float8_e4m3fn": "e4m3",
    "c10::Float8_e5m2": "e5m2",
}


def short_type(name: str) -> str:
    """`c10::BFloat16` -> `bf16`."""
    return _SHORT.get(name, name)
