"""The price lists against torch itself: what is written is what the op returns, what is counted is
what torch counts.

Every case runs on the CPU under the profiler; the recorded call is priced, and the price must equal
the bytes of the real results. FLOP are compared with torch's own counter.
"""

import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:ComplexHalf")]

from foretrace.work import costs  # noqa: E402
from foretrace.work.costs import OpCall  # noqa: E402
from foretrace.work.costs._cost import SCALAR_TYPES, SIZES  # noqa: E402
from sweep import looped  # noqa: E402


def recorded(name: str, run: Callable[[], Any], folder: Path) -> tuple[OpCall, Any]:
    """The first call of `name` that the profiler saw while `run` ran, and what `run` returned."""
    with torch.profiler.profile(record_shapes=True) as profiler:
        result = run()
    path = folder / "trace.json"
    profiler.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    args = next(
        event["args"] for event in events if event.get("cat") == "cpu_op" and event["name"] == name
    )
    return OpCall(
        name, args["Input Dims"], args["Input type"], args["Input Strides"], args["Concrete Inputs"]
    ), result


def tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors(each)


def x(*dims: int, dtype: Any = torch.float32) -> Any:
    return torch.ones(dims).to(dtype)


BF16, F64, BOOL = torch.bfloat16, torch.float64, torch.bool
I8, I32, I64 = torch.int8, torch.int32, torch.int64
ATEN = torch.ops.aten
INDEX, NLL = torch.tensor([0, 2, 1]), ATEN.nll_loss_forward

# op -> a call whose results are exactly what the op writes
WRITTEN: dict[str, tuple[str, Callable[[], Any]]] = {
    "mm": ("aten::mm", lambda: x(5, 7) @ x(7, 3)),
    "bmm": ("aten::bmm", lambda: torch.bmm(x(2, 5, 7), x(2, 7, 3))),
    "addmm": ("aten::addmm", lambda: torch.addmm(x(3), x(5, 7), x(7, 3))),
    "baddbmm": ("aten::baddbmm", lambda: torch.baddbmm(x(2, 5, 3), x(2, 5, 7), x(2, 7, 3))),
    "mv": ("aten::mv", lambda: torch.mv(x(5, 7), x(7))),
    "dot": ("aten::dot", lambda: torch.dot(x(7), x(7))),
    "outer": ("aten::outer", lambda: torch.outer(x(7), x(3))),
    "int mm": ("aten::_int_mm", lambda: torch._int_mm(x(32, 16, dtype=I8), x(16, 8, dtype=I8))),
    "conv": (
        "aten::convolution",
        lambda: F.conv2d(x(2, 8, 17, 16), x(4, 4, 3, 5), x(4), (2, 1), (1, 2), (1, 1), 2),
    ),
    "conv dilated": ("aten::convolution", lambda: F.conv1d(x(2, 3, 50), x(6, 3, 3), None, 1, 2, 4)),
    "conv transposed": (
        "aten::convolution",
        lambda: F.conv_transpose2d(
            x(2, 6, 5, 7), x(6, 2, 3, 3), x(4), (2, 3), (1, 0), (1, 2), 2, (1, 1)
        ),
    ),
    "add broadcast": ("aten::add", lambda: x(4, 1, 3) + x(5, 1)),
    "add mixed": ("aten::add", lambda: x(4, dtype=BF16) + x(4)),
    "add int and float number": ("aten::add", lambda: x(4, dtype=I32) + 0.5),
    "add int and int number": ("aten::add", lambda: x(4, dtype=I32) + 3),
    "mul bf16 and number": ("aten::mul", lambda: x(4, dtype=BF16) * 0.5),
    "mul with 0-d": ("aten::mul", lambda: x(4, dtype=BF16) * torch.tensor(2.0)),
    "half and bf16": ("aten::mul", lambda: x(4, dtype=BF16) * x(4, dtype=torch.half)),
    "bytes": ("aten::add", lambda: x(4, dtype=torch.uint8) + x(4, dtype=I8)),
    "div ints": ("aten::div", lambda: x(4, dtype=I64) / x(4, dtype=I32)),
    "bool sum of two": ("aten::add", lambda: x(4, dtype=BOOL) + x(4, dtype=I64)),
    "pow number base": ("aten::pow", lambda: 2 ** x(5)),
    "sqrt int": ("aten::sqrt", lambda: x(5, dtype=I64).sqrt()),
    "add in place": ("aten::add_", lambda: x(4, 3, dtype=BF16).add_(x(3))),
    "eq": ("aten::eq", lambda: x(4, 3) == 1),
    "isnan": ("aten::isnan", lambda: x(4, 3).isnan()),
    "where": (
        "aten::where",
        lambda: torch.where(x(4, 3, dtype=BOOL), x(3, dtype=BF16), x(4, 3, dtype=BF16)),
    ),
    "masked_fill": ("aten::masked_fill_", lambda: x(4, 3).masked_fill_(x(4, 3, dtype=BOOL), 0.0)),
    "clamp": ("aten::clamp", lambda: x(4, 3).clamp(0, 1)),
    "lerp": ("aten::lerp", lambda: torch.lerp(x(4, 3), x(4, 3), 0.5)),
    "addcmul": ("aten::addcmul", lambda: torch.addcmul(x(4, 3), x(4, 1), x(3))),
    "gelu": ("aten::gelu", lambda: F.gelu(x(4, 3, dtype=BF16))),
    "glu": ("aten::glu", lambda: F.glu(x(4, 6))),
    "logical_and": ("aten::logical_and", lambda: torch.logical_and(x(4), x(4))),
    "bitwise_and": ("aten::bitwise_and", lambda: x(4, dtype=I32) & x(4, dtype=I32)),
    "sum all": ("aten::sum", lambda: x(4, 5, 6).sum()),
    "sum dims": ("aten::sum", lambda: x(4, 5, 6).sum((0, -1))),
    "sum int": ("aten::sum", lambda: x(4, 5, dtype=I32).sum(1)),
    "sum to double": ("aten::sum", lambda: x(4, 5).sum(1, dtype=F64)),
    "sum all to double": ("aten::sum", lambda: x(4, 5).sum(dtype=F64)),
    "mean keepdim": ("aten::mean", lambda: x(4, 5, 6).mean(-1, keepdim=True)),
    "max all": ("aten::max", lambda: x(4, 5).max()),
    "max dim": ("aten::max", lambda: x(4, 5).max(1)),
    "max of two": ("aten::maximum", lambda: torch.max(x(4, 5), x(5))),
    "amax": ("aten::amax", lambda: x(4, 5, 6).amax((0, 2))),
    "argmax": ("aten::argmax", lambda: x(4, 5).argmax(1)),
    "argmax all": ("aten::argmax", lambda: x(4, 5).argmax()),
    "any": ("aten::any", lambda: x(4, 5).any()),
    "all dim": ("aten::all", lambda: x(4, 5).all(0)),
    "var": ("aten::var", lambda: x(4, 5, 6).var((0, 1))),
    "var all": ("aten::var", lambda: x(4, 5, 6).var()),
    "var_mean": ("aten::var_mean", lambda: torch.var_mean(x(4, 5, 6), [1])),
    "vector norm": ("aten::linalg_vector_norm", lambda: torch.linalg.vector_norm(x(4, 5), dim=1)),
    "norm": ("aten::linalg_vector_norm", lambda: x(4, 5).norm()),
    "layer norm": (
        "aten::native_layer_norm",
        lambda: torch.native_layer_norm(x(4, 5, 6), [5, 6], x(5, 6), None, 1e-5),
    ),
    "group norm": (
        "aten::native_group_norm",
        lambda: torch.native_group_norm(x(2, 8, 5), x(8), x(8), 2, 8, 5, 4, 1e-5),
    ),
    "softmax": ("aten::_softmax", lambda: torch.softmax(x(4, 5), 1)),
    "softmax backward": (
        "aten::_softmax_backward_data",
        lambda: torch._softmax_backward_data(x(4, 5), x(4, 5), 1, torch.float32),
    ),
    "nll": ("aten::nll_loss_forward", lambda: NLL(x(3, 5), INDEX, None, 1, -100)),
    "nll none": ("aten::nll_loss_forward", lambda: NLL(x(3, 5), INDEX, None, 0, -100)),
    "index_select": ("aten::index_select", lambda: torch.index_select(x(9, 4), 0, INDEX)),
    "index_select dim": ("aten::index_select", lambda: torch.index_select(x(9, 4), -1, INDEX)),
    "embedding": ("aten::embedding", lambda: F.embedding(INDEX, x(9, 4))),
    "gather": ("aten::gather", lambda: torch.gather(x(9, 4), 0, INDEX.expand(1, 3))),
    "to bf16": ("aten::_to_copy", lambda: x(4, 5).to(BF16)),
    "copy": ("aten::copy_", lambda: x(4, 5, dtype=BF16).copy_(x(5))),
    "clone": ("aten::clone", lambda: x(4, 5).t().clone()),
    "fill": ("aten::fill_", lambda: x(4, 5).fill_(1)),
    "zero": ("aten::zero_", lambda: x(4, 5).zero_()),
    "flip": ("aten::flip", lambda: x(4, 5).flip(0)),
    "pad": ("aten::constant_pad_nd", lambda: F.pad(x(4, 5), (1, 2, 3, 0))),
    "normal": ("aten::normal_", lambda: x(4, 5).normal_()),
    "bernoulli": ("aten::bernoulli_", lambda: x(4, 5).bernoulli_(0.5)),
    "dropout": ("aten::native_dropout", lambda: torch.native_dropout(x(4, 5), 0.5, True)),
    "multinomial": ("aten::multinomial", lambda: torch.multinomial(x(4, 5), 2)),
    "sort": ("aten::sort", lambda: x(4, 5).sort()),
    "topk": ("aten::topk", lambda: x(4, 5).topk(2, dim=0)),
    "cumsum int": ("aten::cumsum", lambda: x(4, 5, dtype=I32).cumsum(0)),
    "cummax": ("aten::cummax", lambda: x(4, 5).cummax(0)),
    "searchsorted": ("aten::searchsorted", lambda: torch.searchsorted(x(7), x(4, 5))),
    "max_pool": (
        "aten::max_pool2d_with_indices",
        lambda: F.max_pool2d(x(2, 3, 9, 8), 3, 2, 1, return_indices=True),
    ),
    "max_pool ceil": (
        "aten::max_pool2d_with_indices",
        lambda: F.max_pool2d(x(2, 3, 10, 8), 3, 2, 1, ceil_mode=True, return_indices=True),
    ),
    "avg_pool": ("aten::avg_pool2d", lambda: F.avg_pool2d(x(2, 3, 9, 8), 2)),
    "adaptive pool": (
        "aten::_adaptive_avg_pool2d",
        lambda: F.adaptive_avg_pool2d(x(2, 3, 9, 8), (2, 3)),
    ),
    "upsample": (
        "aten::upsample_bilinear2d",
        lambda: ATEN.upsample_bilinear2d(x(2, 3, 4, 4), [7, 9], False),
    ),
    "tril": ("aten::tril", lambda: x(4, 5).tril()),
}


@pytest.mark.parametrize(("name", "run"), WRITTEN.values(), ids=WRITTEN.keys())
def test_bytes_written_are_the_bytes_of_the_results(
    name: str, run: Callable[[], Any], tmp_path: Path
) -> None:
    call, result = recorded(name, run, tmp_path)
    found = costs.cost(call)
    assert found is not None
    assert found.bytes_written == sum(
        each.numel() * each.element_size() for each in tensors(result)
    )


def _conv_backward(mask: list[bool], groups: int = 2) -> Any:
    image = x(2, 4 * groups, 16, 16)
    return ATEN.convolution_backward(
        x(2, 4, 8, 8),
        image,
        x(4, 4, 3, 3),
        [4],
        [2, 2],
        [1, 1],
        [1, 1],
        False,
        [0, 0],
        groups,
        mask,
    )


COUNTED: dict[str, tuple[str, Callable[[], Any]]] = {
    **{
        key: WRITTEN[key]
        for key in ("mm", "bmm", "addmm", "baddbmm", "conv", "conv dilated", "conv transposed")
    },
    # torch's counter takes the weight gradient of a grouped convolution for that of a dense one, so
    # groups = 1 here
    "conv backward": (
        "aten::convolution_backward",
        lambda: _conv_backward([True, True, False], groups=1),
    ),
    "conv weight gradient": (
        "aten::convolution_backward",
        lambda: _conv_backward([False, True, True], groups=1),
    ),
}


@pytest.mark.parametrize(("name", "run"), COUNTED.values(), ids=COUNTED.keys())
def test_flops_are_what_torch_counts(name: str, run: Callable[[], Any], tmp_path: Path) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    call, _ = recorded(name, run, tmp_path)
    with FlopCounterMode(display=False) as counter:
        run()
    found = costs.cost(call)
    assert found is not None
    assert found.flops == counter.get_total_flops()


@pytest.mark.parametrize("mask", [[True, True, True], [True, False, False], [False, True, True]])
def test_a_convolution_backward_writes_what_its_mask_asks_for(
    mask: list[bool], tmp_path: Path
) -> None:
    call, result = recorded("aten::convolution_backward", lambda: _conv_backward(mask), tmp_path)
    found = costs.cost(call)
    assert found is not None
    assert found.bytes_written == sum(each.numel() * 4 for each in tensors(result))
    assert found.matmuls == max(sum(mask[:2]), 1)


def test_element_types_have_the_size_and_the_number_that_torch_gives_them(tmp_path: Path) -> None:
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    quantized = {torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4}
    codes: dict[str, str] = {}
    for dtype in sorted(dtypes - quantized, key=str):
        build = functools.partial(torch.empty, 2, dtype=dtype)
        call, result = recorded("aten::empty", build, tmp_path)
        view, _ = recorded("aten::view", functools.partial(result.view, 1, 2), tmp_path)
        codes[view.types[0]] = call.text(1)
        assert SIZES.get(view.types[0], dtype.itemsize) == dtype.itemsize
    assert {name: str(code) for code, name in SCALAR_TYPES.items()}.items() <= codes.items()


# op -> its arguments as name:place, for ops that cannot run on a CPU
SCHEMAS = {
    "_cudnn_attention_backward": "is_causal:14 attn_bias:8 cum_seq_q:9 out:4",
    "_cudnn_attention_forward": "is_causal:10 attn_bias:3 cum_seq_q:4 compute_log_sumexp:8",
    "_flash_attention_forward": "is_causal:8 cum_seq_q:3",
    "_flash_attention_backward": "is_causal:11 cum_seq_q:6 out:4 logsumexp:5",
    "_efficient_attention_forward": (
        "custom_mask_type:9 bias:3 cu_seqlens_q:4 compute_log_sumexp:10"
    ),
    "_efficient_attention_backward": "custom_mask_type:14 bias:4 out:5 cu_seqlens_q:6 logsumexp:10",
    "_scaled_dot_product_flash_attention": "is_causal:4",
    "_scaled_dot_product_efficient_attention": "is_causal:6 attn_bias:3 compute_log_sumexp:4",
    "_scaled_dot_product_cudnn_attention": "is_causal:6 attn_bias:3 compute_log_sumexp:4",
    "_scaled_dot_product_flash_attention_backward": "is_causal:11 out:4 cum_seq_q:6",
    "_scaled_dot_product_efficient_attention_backward": (
        "is_causal:11 attn_bias:4 out:5 logsumexp:6"
    ),
    "_scaled_dot_product_cudnn_attention_backward": "is_causal:14 attn_bias:8 cum_seq_q:9",
    "convolution": "bias:2 stride:3 padding:4 dilation:5 transposed:6 output_padding:7 groups:8",
    "cudnn_convolution": "padding:2 stride:3 dilation:4 groups:5",
    "miopen_convolution": "bias:2 padding:3 stride:4 dilation:5 groups:6",
    "cudnn_convolution_transpose": "padding:2 output_padding:3 stride:4 dilation:5 groups:6",
    "miopen_convolution_transpose": "padding:3 output_padding:4 stride:5 dilation:6 groups:7",
    "cudnn_convolution_add_relu": "z:2 bias:4 stride:5 padding:6 dilation:7 groups:8",
    "convolution_backward": "transposed:7 output_mask:10",
    "_scaled_mm": "scale_a:2 scale_b:3 bias:4 out_dtype:6",
    "_grouped_mm": "offs:2 bias:3 out_dtype:4",
    "_scaled_grouped_mm": "scale_a:2 scale_b:3 offs:4 bias:5 out_dtype:7",
    "native_layer_norm_backward": "weight:5 bias:6 output_mask:7",
    "_fused_rms_norm_backward": "weight:4 output_mask:5",
    "native_batch_norm_backward": "weight:2 output_mask:9",
    "native_group_norm": "N:3 group:6",
    "native_group_norm_backward": "weight:4 output_mask:9",
    "cudnn_batch_norm": "running_mean:3 running_var:4 training:5",
    "elu_backward": "self_or_result:5",
    "nll_loss_backward": "self:1 target:2 weight:3 total_weight:6",
    "_fused_adamw_": "grads:1 exp_avgs:2 exp_avg_sqs:3 max_exp_avg_sqs:4 state_steps:5",
    "_fused_sgd_": "grads:1 momentum_buffer_list:2",
    "index_put_": "values:2",
}


@looped(("name", "places"), SCHEMAS.items(), ids=SCHEMAS.keys())
def test_arguments_are_where_the_prices_look_for_them(name: str, places: str) -> None:
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    schema = next(each for each in schemas if not each.overload_name)
    arguments = [argument.name for argument in schema.arguments]
    found = (f"{each}:{arguments.index(each)}" for each in re.findall(r"(\w+):", places))
    assert " ".join(found) == places


def test_every_pointwise_op_of_the_core_set_has_a_price() -> None:
    names = {each.name for each in torch._C._jit_get_all_schemas() if each.name[:6] == "aten::"}
    wanted = {torch.Tag.core, torch.Tag.pointwise}
    tagged = {
        name
        for name in names
        if (packet := getattr(ATEN, name.removeprefix("aten::"), None))
        and any(wanted <= set(getattr(packet, overload).tags) for overload in packet.overloads())
    }
    assert len(tagged) > 50
    assert tagged <= {name for kind in costs.kinds() for name in kind.prices}
