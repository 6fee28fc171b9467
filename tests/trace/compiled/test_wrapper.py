"""Kernels and calls of wrappers, with exact bytes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from foretrace.read.compiler.records import Access, FxGraph, GraphNode, KernelCall, NamedTensor
from foretrace.trace.compiled.provenance import typed
from foretrace.trace.compiled.wrapper import parse_wrapper

HEAD = """
# kernel path: /tmp/cache/25/c25k.py
# Topologically Sorted Source Nodes: [gelu, mul], Original ATen: [aten.gelu, aten.mul]
triton_poi_fused_gelu_mul_0 = async_compile.triton('triton_poi_fused_gelu_mul_0', \'\'\'
@triton_heuristics.pointwise(
    size_hints={'x': 33554432}, filename=__file__,
    triton_meta={'signature': {'in_out_ptr0': '*bf16', 'in_ptr0': '*bf16', 'xnumel': 'i32', 'XBLOCK': 'constexpr'}},
    inductor_meta={'mutated_arg_names': ['in_out_ptr0']},
)
@triton.jit
def triton_poi_fused_gelu_mul_0(in_out_ptr0, in_ptr0, xnumel, XBLOCK : tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_out_ptr0 + (x0), xmask).to(tl.float32)
    tmp1 = tl.load(in_ptr0 + (x0), xmask).to(tl.float32)
    tl.store(in_out_ptr0 + (x0), tmp0 * tmp1, xmask)
\'\'\', device_str='cuda')
async_compile.wait(globals())

"""

WRAPPER = (
    HEAD
    + """
class Runner:
    def call(self, args):
        arg0_1, arg1_1, arg2_1 = args
        args.clear()
        assert_size_stride(arg0_1, (3072, 768), (768, 1))
        assert_size_stride(arg1_1, (8192, 768), (768, 1))
        with torch.cuda._DeviceGuard(0):
            buf0 = empty_strided_cuda((8192, 3072), (3072, 1), torch.bfloat16)
            # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.t, aten.mm]
            # [Provenance debug handles] extern_kernels.mm:1
            extern_kernels.mm(arg1_1, reinterpret_tensor(arg0_1, (768, 3072), (1, 768), 0), out=buf0)
            buf2 = reinterpret_tensor(buf0, (64, 128, 3072), (393216, 3072, 1), 0); del buf0  # reuse
            # Topologically Sorted Source Nodes: [gelu, mul], Original ATen: [aten.gelu, aten.mul]
            # [Provenance debug handles] triton_poi_fused_gelu_mul_0:2
            stream0 = get_raw_stream(0)
            triton_poi_fused_gelu_mul_0.run(buf2, arg2_1, 25165824, stream=stream0)
            buf3 = torch.ops.aten.sort.stable(buf2, stable=False, dim=0, descending=False)
            buf4 = buf3[0]
            assert_size_stride(buf4, (64, 128, 3072), (393216, 3072, 1), 'torch.ops.aten.sort.default')
            triton_poi_fused_gelu_mul_0.run(buf4, arg2_1, 1024, stream=stream0)
        return (buf4, )

def get_args():
    arg0_1 = rand_strided((3072, 768), (768, 1), device='cuda:0', dtype=torch.bfloat16)
    arg1_1 = rand_strided((8192, 768), (768, 1), device='cuda:0', dtype=torch.bfloat16)
    arg2_1 = rand_strided((8192, 3072), (3072, 1), device='cuda:0', dtype=torch.bfloat16)
    return [arg0_1, arg1_1, arg2_1]
"""
)


def _moved(call: KernelCall) -> list[tuple[str, str, int | None, str]]:
    return [(a.mode, a.tensor.name, a.bytes, a.certainty) for a in call.accesses]


def test_calls_in_order_with_what_they_move() -> None:
    kernels, calls = parse_wrapper(WRAPPER)
    assert [(each.name, each.language, each.file) for each in kernels] == [
        ("triton_poi_fused_gelu_mul_0", "triton", "/tmp/cache/25/c25k.py")
    ]
    mm, fused, sort, again = calls
    assert (mm.kernel, mm.extern, mm.handle) == ("extern_kernels.mm", True, "extern_kernels.mm:1")
    assert (mm.origins, mm.ops) == (("linear",), ("aten.t", "aten.mm"))
    assert _moved(mm) == [
        ("load", "arg1_1", 12_582_912, "exact"),
        ("load", "arg0_1", 4_718_592, "exact"),
        ("store", "buf0", 50_331_648, "exact"),
    ]
    assert (fused.extern, fused.handle) == (False, "triton_poi_fused_gelu_mul_0:2")
    assert fused.bytes == 3 * 8192 * 3072 * 2 == 150_994_944
    assert fused.accesses[0].tensor.shape == (64, 128, 3072)
    assert _moved(sort) == [
        ("load", "buf2", 50_331_648, "at_least"),
        ("store", "buf4", None, "unknown"),  # the graph states its type
    ]
    assert (again.handle, again.bytes) == ("", 3 * 1024 * 2)


def test_partitions_are_followed_where_they_are_called() -> None:
    code = (
        HEAD
        + """
def partition_0(args):
    arg2_1, = args
    buf1 = empty_strided_cuda((8, 8), (8, 1), torch.float32)
    extern_kernels.mm(arg2_1, arg2_1, out=buf1)
    return (buf1, )

class Runner:
    def call(self, args):
        arg2_1, = args
        assert_size_stride(arg2_1, (8, 8), (8, 1))
        partition0_args = [arg2_1]
        (buf1,) = self.partitions[0](partition0_args)
        aten.copy_(arg2_1, buf1)
        return (buf1, )
"""
    )
    mm, copy = parse_wrapper(code)[1]
    assert (mm.kernel, mm.accesses[-1].bytes) == ("extern_kernels.mm", 256)
    assert _moved(copy) == [("load", "buf1", 256, "exact"), ("store", "arg2_1", None, "unknown")]


@pytest.mark.parametrize(
    "code",
    [
        "",
        "def call(args):\n    return",
        "not python (",
        "x = " + "(" * 3000 + ")" * 3000,
        "x = " + "-" * 100_000 + "1",
        "call = 3\nasync_compile.triton(",
        "def call(args):\n    extern_kernels.mm()\n    torch.ops.aten.sort()\n    x = y[0]\n",
        "k = async_compile.triton('k', '''def k(''')\ndef call(args):\n    k.run(a, b)",
        "def call(args):\n    call(args)\n    partition_0(args)\n",
        "def call(args):\n    a = a\n    extern_kernels.mm(a, a, out=a)\n",
    ],
)
def test_other_text_gives_no_traceback(code: str) -> None:
    kernels, calls = parse_wrapper(code)
    assert all(isinstance(access, Access) for call in calls for access in call.accesses)
    assert all(call.bytes is None for call in calls)
    assert all(kernel.name for kernel in kernels)


def test_wrappers_in_c() -> None:
    """`cpp_wrapper`: the kernels are in a text above the C++ one, which has the calls."""
    code = (
        'r"""\nCompile-time auto-tuning block: \n'
        + HEAD.replace("async_compile.wait(globals())", "")
        + "\"\"\"\n\ncpp_wrapper_src = (\nr'''\n"
        "    // Topologically Sorted Source Nodes: [matmul], Original ATen: [aten.mm]\n"
        "    // [Provenance debug handles] aoti_torch_cuda_mm_out:1\n"
        "    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cuda_mm_out(buf0, arg0_1, arg1_1));\n"
        "    call_triton_poi_fused_gelu_mul_0(buf0, buf3, 512L, 0, stream0);\n'''\n)\n"
    )
    kernels, (mm, fused) = parse_wrapper(code)
    assert [kernel.name for kernel in kernels] == ["triton_poi_fused_gelu_mul_0"]
    assert (mm.kernel, mm.extern, mm.origins) == ("aoti_torch_cuda_mm_out", True, ("matmul",))
    assert mm.bytes is None
    assert fused.bytes == 3 * 512 * 2


def _library(*lines: str) -> tuple[KernelCall, ...]:
    head = "def call(args):\n    arg0_1, arg1_1 = args\n"
    sizes = "    assert_size_stride(arg0_1, (1, 64, 192), (12288, 192, 1))\n"
    inputs = (
        "arg0_1 = rand_strided((1, 64, 192), (12288, 192, 1), device='cpu', dtype=torch.float32)"
    )
    code = (
        head
        + sizes
        + "".join(f"    {line}\n" for line in lines)
        + f"def get_args():\n    {inputs}\n"
    )
    return parse_wrapper(code)[1]


def test_views_of_one_buffer_count_one_by_one() -> None:
    view = "reinterpret_tensor(arg0_1, (1, 4, 64, 16), (64, 16, 192, 1), {})"
    q, k, v = (view.format(offset) for offset in (0, 64, 128))
    sdpa = "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default"
    made = f"buf0 = {sdpa}({q}, {k}, {v})", "buf1 = buf0[0]"
    sizes = "assert_size_stride(buf1, (1, 4, 64, 16), (64, 16, 64, 1))"
    (attention,) = _library(*made, sizes)
    whole = 4 * 64 * 16 * 4
    assert [(a.bytes, a.tensor.offset) for a in attention.accesses[:3]] == [
        (whole, 0), (whole, 64), (whole, 128),
    ]  # fmt: skip
    result = NamedTensor("getitem", "f32", (1, 4, 64, 16), (4096, 16, 64, 1))
    item = GraphNode("getitem", "operator.getitem", ("sdpa",), result)
    graph = FxGraph("post_grad", (GraphNode("sdpa", sdpa), item))
    (known,) = typed([replace(attention, nodes=("sdpa",))], graph)
    assert known.bytes == 4 * whole, "the stride of a single batch says nothing"
    same = view.format(0)
    (twice,) = _library(f"torch.ops.test.op_.default({same}, {same})")
    assert [a.bytes for a in twice.accesses if a.mode == "load"] == [whole]
    turned = "reinterpret_tensor(arg0_1, (192, 64), (1, 192), 0)"
    (square,) = _library(f"torch.ops.test.op_.default(arg0_1, {turned})")
    assert [a.bytes for a in square.accesses] == [64 * 192 * 4, 0, 64 * 192 * 4], "the same memory"


def test_what_a_library_may_touch() -> None:
    bump, scatter, mean = _library(
        "torch.ops.test.bump.default(arg0_1, 2.0)",
        "aten.scatter_reduce_.two(arg0_1, 0, arg0_1, arg0_1, reduce='amax', include_self=True)",
        "aten.scatter_reduce_.two(arg0_1, 0, arg0_1, arg0_1, reduce='mean', include_self=True)",
    )
    assert [(a.mode, a.certainty) for a in bump.accesses] == [
        ("load", "at_most"), ("store", "at_most"),
    ]  # fmt: skip
    assert {a.certainty for a in scatter.accesses} == {"at_most"}
    assert {a.certainty for a in mean.accesses} == {"at_least"}, "it divides all of it at the end"
    assert scatter.arguments[-2:] == ("reduce='amax'", "include_self=True")
