"""Loads and stores of generated Triton and C++."""

from __future__ import annotations

from math import prod

from foretrace.read.compiler.records import Access, NamedTensor
from foretrace.trace.compiled.accesses import accesses, read_cpp, read_triton, touches
from sweep import looped

CODE = """
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* in_out_ptr0,
                       const bfloat16* in_ptr1,
                       int64_t* out_ptr0,
                       const int64_t ks0)
{
    gemm(in_ptr1, out_ptr0);
}
"""


def kernel(body: str, *pointers: str, types: str = "*fp32") -> str:
    """A kernel over x (100 x 64) and r0_ (8), as Inductor writes it."""
    signature = dict.fromkeys(pointers, types) | {"xnumel": "i32", "XBLOCK": "constexpr"}
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"""
@triton_heuristics.reduction(triton_meta={{'signature': {signature}}}, inductor_meta={{}}, num_warps=4)
@triton.jit
def k({", ".join(pointers)}, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    xnumel = 6400
    r0_numel = 8
    R0_BLOCK: tl.constexpr = 8
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_mask = r0_index < r0_numel
    x0 = xindex % 64
    x1 = xindex // 64
    r0_2 = r0_index
{lines}
"""


def found(body: str, *pointers: str, shape: tuple[int, ...] = (100, 64)) -> list[Access]:
    """What a kernel with this body moves; every pointer is a tensor of this shape."""
    code = read_triton(kernel(body, *pointers), "k")
    assert code is not None
    strides = tuple(prod(shape[at + 1 :]) for at in range(len(shape)))
    tensors = {name: NamedTensor(name, "f32", shape, strides) for name in pointers}
    return list(accesses([*touches(code, {})], tensors))


@looped(
    ("body", "bytes_moved", "certainty"),
    [
        ("tmp0 = tl.load(p + (x0 + 64*x1), xmask)", 25_600, "exact"),
        ("tmp0 = tl.load(p + (x0), None, eviction_policy='evict_last')", 256, "exact"),
        ("tmp0 = tl.load(p + (0))", 4, "exact"),
        ("tmp0 = tl.load(p + (r0_2 + 8*x1), r0_mask & xmask, other=0.0)", 3_200, "exact"),
        # the same again, and half of it again, move nothing more
        ("a = tl.load(p + (xindex), xmask)\nb = tl.load(p + (32 + 64*x1 + x0), x0 < 32)", 25_600, "exact"),
        # a mask of the index is exact, also through other names
        ("tmp1 = tl.full([1], 32, tl.int64)\ntmp2 = x0 < tmp1\nt = tl.load(p + (x0 + 64*x1), tmp2 & xmask)", 12_800, "exact"),
        ("t = tl.load(p + ((-1) + x0 + 64*x1), (x0 >= 1) & xmask)", 25_200, "exact"),
        # data decides: no more than the tensor, no more than the loop
        ("i = tl.load(p + (r0_2))\nt = tl.load(q + (64*i))", 32, "at_most"),
        ("i = tl.load(p + (x1))\nt = tl.load(q + (x0 + r0_2 + 64*i))", 25_600, "at_most"),
        ("i = tl.load(p + (x1))\nt = tl.load(q + (x0 + 64*x1), i < 5.0)", 25_600, "at_most"),
        ("t = tl.load(q + (tl.program_id(0)))", 25_600, "at_most"),
        # an atomic operation reads and writes
        ("tl.atomic_add(q + (x1), 1.0, xmask, sem='relaxed')", 800, "exact"),
        # a block pointer covers what it describes
        ("b = tl.make_block_ptr(q, shape=[100, 32], strides=[64, 1], block_shape=[XBLOCK, 8], order=[1, 0], offsets=[xoffset, 0])\nt = tl.load(b, boundary_check=[0])", 12_800, "exact"),
        ("d = tl.make_tensor_descriptor(q, shape=[100, 64], strides=[64, 1], block_shape=[8, 8])\nt = d.load([xoffset, 0])", 25_600, "exact"),
        # a pointer that a helper takes is touched somewhere
        ("triton_helpers.lookback(q, x0)", 25_600, "at_most"),
        ("alias = q\nt = tl.load(alias + (x0))", 256, "exact"),
        # a loop that goes on over x
        ("for _ in tl.range(0, 4, XBLOCK):\n    x5 = xindex\n    xindex += XBLOCK\n    t = tl.load(q + (x5))", 25_600, "exact"),
        # what a loop changes is not known
        ("n = 3\nfor i in range(4):\n    n = n + x0\n    t = tl.load(q + (n))", 25_600, "at_most"),
    ],
)  # fmt: skip
def test_the_last_pointer(body: str, bytes_moved: int, certainty: str) -> None:
    pointers = ("p", "q") if "q" in body else ("p",)
    last = [each for each in found(body, *pointers) if each.argument == pointers[-1]]
    assert [(each.bytes, each.certainty) for each in last] == [(bytes_moved, certainty)]


def test_loads_and_stores_are_apart() -> None:
    moved = found("t = tl.load(p + (xindex), xmask)\ntl.store(p + (xindex), t, xmask)", "p")
    assert [(each.mode, each.bytes) for each in moved] == [("load", 25_600), ("store", 25_600)]


def test_several_kernels_in_one() -> None:
    """A combo kernel has one index after another, each with its own sizes."""
    moved = found(
        """
pid = tl.program_id(0)
if pid < 3:
    xnumel = 100
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    tl.store(p + (xindex), 1.0, xindex < xnumel)
elif pid < 7:
    xnumel = 50
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    tl.store(q + (2*xindex), 1.0, xindex < xnumel)
""",
        "p",
        "q",
    )
    assert [(each.argument, each.bytes) for each in moved] == [("p", 400), ("q", 200)]


def test_options_and_types_of_triton() -> None:
    code = read_triton(kernel("x9 = x0", "p", types="*bf16"), "k")
    assert code is not None
    assert code.config == {"num_warps": 4, "R0_BLOCK": 8}
    assert code.pointers == {"p": "bf16"}
    assert read_triton("x = 1", "k") is None
    assert read_triton("def k(", "k") is None


def test_a_cpp_kernel_moves_at_most_its_tensors() -> None:
    code = read_cpp(CODE)
    assert code is not None
    assert code.parameters == ("in_out_ptr0", "in_ptr1", "out_ptr0", "ks0")
    tensors = {
        name: NamedTensor(name, dtype, (50, 102), (102, 1)) for name, dtype in code.pointers.items()
    }
    moved = [(a.argument, a.mode, a.bytes) for a in accesses([*touches(code, {})], tensors)]
    assert moved == [
        ("in_out_ptr0", "load", 20_400),
        ("in_out_ptr0", "store", 20_400),
        ("in_ptr1", "load", 10_200),
        ("out_ptr0", "store", 40_800),
    ]
    assert {a.certainty for a in accesses([*touches(code, {})], tensors)} == {"at_most"}
