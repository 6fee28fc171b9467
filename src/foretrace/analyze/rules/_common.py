"""What several rules and fixes need: words, types and shapes, the least time of an operation.

`traffic_of` says what one kernel in place of several must still move: operands from outside and
results for outside. A trace records the sizes of operands, not which tensor is which. Where two
tensors can be one, they count as one, so that the traffic is the least there can be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from msgspec import Struct

from foretrace.base.units import bytes_text, time_text
from foretrace.model.arguments import made, operands
from foretrace.model.costs import OpCall, Tensor, peak_flops, short_type
from foretrace.model.costs.matmul import OPERANDS
from foretrace.model.order import Case
from foretrace.schema.device import Device

# Ops that add their first argument to the matmul of the next two.
ADDING = frozenset({"aten::addmm", "aten::_addmm_activation", "aten::baddbmm", "aten::addmv"})
LAYOUT = "layout_transform"  # what the families call a change between NCHW and NHWC
BACKWARD = "autograd::engine::evaluate_function"


def bare(op: str) -> str:
    """`aten::gelu` -> `gelu`."""
    return op.removeprefix("aten::")


def listing(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def shortened(words: Sequence[str], most: int = 6) -> str:
    """`a, b, c and 12 more`: no more than fit a line."""
    more = len(words) - most
    return listing([*words[:most], f"{more} more"] if more > 1 else words)


def amount_text(entry: dict[str, Any]) -> str:
    """`277 us, 204.5 MB` of an entry with `ns` and `bytes`; the time alone without bytes."""
    size = entry["bytes"]
    return time_text(entry["ns"]) + ("" if size is None else f", {bytes_text(size)}")


def shapes_text(call: OpCall | None) -> str:
    """The shapes of the tensor arguments, `[8192, 768] x [768, 3072]`; a result that is passed in
    is left out. What a matmul is added to comes last: `[8192, 768] x [768, 3072] + [3072]`.
    """
    tensors = call.every_tensor() if call else ()
    if call and call.name in OPERANDS:
        tensors = tensors[: OPERANDS[call.name]]
    texts = [f"[{', '.join(str(size) for size in tensor.dims)}]" for tensor in tensors]
    if call and call.name in ADDING and len(texts) == 3:
        return f"{texts[1]} x {texts[2]} + {texts[0]}"
    return " x ".join(texts)


def bandwidth_ns(device: Device | None, count: int | None) -> float:
    """The least time to move this many bytes; 0 if unknown or if the cache may hold them."""
    if device is None or not count or count <= (device.l2_bytes or 0):
        return 0.0
    return count / device.bytes_per_s * 1e9


def matmul_ns(device: Device | None, case: Case, kind: str = "") -> float | None:
    """The least time of one launch's arithmetic at the card's peak for `kind`, or its own type."""
    stated = case.id.get("dtype_in") or ""
    own = {"f16": "fp16", "f32": "tf32", "tf32": "tf32"}.get(stated, stated)
    top = peak_flops(device, kind or own, True)
    return None if top is None or case.flops is None else case.flops / top * 1e9


@cache
def generation(arch: str | None) -> int | None:
    """`sm90` -> 9, `sm100f` -> 10; None for other cards than NVIDIA's."""
    if not arch or not arch.startswith("sm"):
        return None
    digits = "".join(letter for letter in arch if letter.isdigit())
    return int(digits) // 10 if digits else None


def cast_of(case: Case) -> str:
    """`bf16 -> f32` for a kernel that changes the type, else ""."""
    if case.role != "copy":
        return ""
    call = case.call if case.op == "aten::copy_" else None
    target, source = (call.tensor(0), call.tensor(1)) if call else (None, None)
    types = [case.id.get("src_dtype"), case.id.get("dst_dtype")]
    if target and source and target.type == source.type:
        return ""
    if target and source:
        types = [short_type(source.type), short_type(target.type)]
    return f"{types[0]} -> {types[1]}" if all(types) and types[0] != types[1] else ""


class Traffic(Struct, frozen=True):
    """What one kernel for a group must move, and the largest tensor that it need not."""

    least: int
    largest: int
    name: str


def traffic_of(cases: Sequence[Case], matmuls: Counter[int]) -> Traffic:
    """`matmuls` counts the matmuls that wrote a tensor of some size before the group.

    Operands of one shape from outside count as one tensor, or as many as matmuls made of it. A
    slice (half of a head, an item of a list) counts as part of the largest.
    """
    inside: Counter[int] = Counter()
    outside: Counter[tuple[Any, ...]] = Counter()
    read: dict[int, Tensor] = {}  # what is made and read inside, by size
    pairs = [(case, made(case)) for case in cases]
    for case, result in pairs:
        taken: Counter[int] = Counter()
        for tensor, size in operands(case):
            if inside[size] > taken[size]:
                taken[size] += 1
                read[size] = tensor
            else:
                is_slice = not tensor.type or has_gaps(tensor)
                outside[tensor.dims, tensor.type, is_slice, size] += 1
        inside[result] += 1
    largest = max((size for *_, size in outside), default=0)
    least = sum(
        size * min(times, matmuls[size] or 1)
        for (*_, part, size), times in outside.items()
        if size == largest or not part
    )
    final = sum(case.bytes_written or 0 for case, result in pairs if result not in read)
    size = max(read, default=0)
    maker = next((bare(case.op) for case, result in pairs if result == size), "")
    name = f"The {bytes_text(size)} intermediate that {maker} makes"
    if (shown := read.get(size)) and shown.elements == shown.stored:
        name += f" ({shown.text})"
    return Traffic(least + max(final, cases[-1].bytes_written or 0), size, name)


def has_gaps(tensor: Tensor) -> bool:
    """Whether its elements span more memory than they fill: it is part of a larger tensor."""
    pairs = zip(tensor.dims, tensor.strides or (), strict=False)
    return 1 + sum((size - 1) * abs(stride) for size, stride in pairs) > tensor.stored
