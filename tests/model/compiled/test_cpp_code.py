"""Loads and stores of generated C++."""

from __future__ import annotations

from foretrace.model.compiled import cpp_code
from foretrace.model.compiled.accesses import accesses
from foretrace.schema.compiler import NamedTensor

LOOP = "for(int64_t {0}=static_cast<int64_t>(0L); {0}<static_cast<int64_t>({1}L); {0}+=static_cast<int64_t>({2}L))"
CODE = f"""
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* in_out_ptr0,
                       const float* in_ptr0,
                       const bfloat16* in_ptr1,
                       int64_t* out_ptr0,
                       float* out_ptr1,
                       const int64_t ks0)
{{
    auto out_ptr9 = in_out_ptr0;
    {{
        {LOOP.format("x0", 50, 1)}
        {{
            {LOOP.format("x1", 102, 4)}
            {{
                if(C10_LIKELY(x1 >= static_cast<int64_t>(0) && x1 < static_cast<int64_t>(100L)))
                {{
                    auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x1 + 102L*x0), static_cast<int64_t>(4));
                    tmp0.store(out_ptr9 + static_cast<int64_t>(x1 + 102L*x0));
                }}
                if(C10_UNLIKELY(x1 >= static_cast<int64_t>(100L) && x1 < static_cast<int64_t>(102L)))
                {{
                    auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x1 + 102L*x0), static_cast<int64_t>(2L));
                    tmp0.store(out_ptr9 + static_cast<int64_t>(x1 + 102L*x0), static_cast<int64_t>(2L));
                }}
            }}
            out_ptr0[static_cast<int64_t>(x0)] = static_cast<int64_t>(1L);
            auto tmp3 = [&]
            {{
                auto tmp4 = in_ptr1[static_cast<int64_t>((-1L) + x0)];
                return tmp4;
            }}
            ;
            out_ptr1[static_cast<int64_t>(c10::div_floor_integer(static_cast<int64_t>(x0), static_cast<int64_t>(5L)))] = tmp3();
        }}
    }}
}}
"""


def test_a_tail_counts_once() -> None:
    code = cpp_code.read(CODE)
    assert code is not None
    assert code.parameters == ("in_out_ptr0", "in_ptr0", "in_ptr1", "out_ptr0", "out_ptr1", "ks0")
    assert code.pointers["in_ptr1"] == "bf16"
    tensors = {
        name: NamedTensor(name, dtype, (50, 102), (102, 1)) for name, dtype in code.pointers.items()
    }
    moved = {
        a.argument: (a.mode, a.bytes, a.certainty)
        for a in accesses(cpp_code.touches(code, {}), tensors)
    }
    assert moved == {
        "in_ptr0": ("load", 20_400, "exact"),
        "in_out_ptr0": ("store", 20_400, "exact"),
        "out_ptr0": ("store", 400, "exact"),
        "in_ptr1": ("load", 100, "at_most"),  # under a mask
        "out_ptr1": ("store", 40, "exact"),
    }  # fmt: skip


def test_a_pointer_in_another_place_is_touched_somewhere() -> None:
    code = cpp_code.read(
        'extern "C" void kernel(const float* X, float* out_ptr0)\n{\n    gemm(X, out_ptr0);\n}'
    )
    assert code is not None
    tensors = {name: NamedTensor(name, "f32", (8, 8), (8, 1)) for name in code.pointers}
    moved = [
        (a.argument, a.bytes, a.certainty) for a in accesses(cpp_code.touches(code, {}), tensors)
    ]
    assert ("X", 256, "at_most") in moved
    assert all(certainty == "at_most" for _, _, certainty in moved)


def test_sizes_that_are_arguments() -> None:
    text = CODE.replace("(50L)", "(ks0)")
    code = cpp_code.read(text)
    assert code is not None
    reached = {touch.argument: touch.index for touch in cpp_code.touches(code, {"ks0": 7})}
    assert reached["out_ptr0"] is not None
    assert {touch.argument: touch.index for touch in cpp_code.touches(code, {})}["out_ptr0"] is None


def test_other_text() -> None:
    assert cpp_code.read("") is None
    assert cpp_code.read('extern "C" void kernel(') is None
    assert cpp_code.read('extern "C" void kernel(std::function<void(int)> f) {}') is None
    for end in range(0, len(CODE), 41):
        code = cpp_code.read(CODE[:end])
        assert code is None or cpp_code.touches(code, {}) is not None
