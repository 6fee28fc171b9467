"""What is known of kernels and of the ops that launched them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from foretrace.base.patterns import regex
from foretrace.check.evidence import Evidence
from foretrace.check.grammar import Slot, list_of, one_of, read_name
from foretrace.check.kinds import (
    Measurement,
    Miss,
    Query,
    from_selection,
    judge_all,
    known,
    per_window,
    prediction,
    tally,
)
from foretrace.check.selection import NO_CALLS, Selection, certain, select
from foretrace.check.traits import (
    CROSSES,
    Field,
    agrees,
    fields,
    has_trait,
    read_field,
    read_value,
    types_of,
    value_of,
    value_text,
)
from foretrace.check.windows import Unknown, Window, named
from foretrace.check.words import (
    DTYPES,
    FAMILY_WORDS,
    HEADS,
    MEMORY,
    Amount,
    Compare,
    ParseFailure,
    Selector,
    Token,
    Trait,
    key_at,
    text_at,
)
from foretrace.trace.host import Host
from foretrace.trace.module_calls import ENGINE


def written_out(window: Window) -> bool:
    """Whether attention is matmuls around a softmax, by the ops of an eager program."""
    evidence, host = window.evidence, window.evidence.trace.host
    calls = {"aten::bmm", "aten::softmax"} <= set(host.names) and not window.gap
    return calls and not evidence.is_compiled and "attention" not in evidence.roles


def _complete(query: Query) -> Query:
    """The query with what its wording leaves out: `every`, or `no`, and the kernels of a field."""
    denied = {"not", "no"} & set(query.args)
    added: dict[str, object] = {"quantifier": "no" if denied else "every"}
    if "used" in query.args:
        added["quantifier"] = "some"
    trait = query.args.get("trait")
    if isinstance(trait, Selector) and trait.kind == "memcpy" and "what" in query.args:
        across = Trait("direction", CROSSES)
        crossing = replace(HEADS["memcpy"], text=query.what.text, traits=(across,))
        query = replace(query, args={**query.args, "what": crossing})
    if "peak_share" in query.args:
        share: Amount = query.args["peak_share"]
        added |= {"field": fields()["roof"], "value": f"{share.value * 100:g}"}
        added["compare"] = Compare(">=")
    if "what" not in query.args:
        heads = [HEADS[role] for role in query.args["field"].roles]
        there = (head for head in heads if select(query.windows[0], head).sure)
        added["what"] = next(there, heads[0])
    return replace(query, args=added | dict(query.args))


def _shown(window: Window, rows: list[int], trait: Selector) -> list[str]:
    """The names of kernels, with the bound where the prediction is about that."""
    shorts = [window.evidence.operation(row).ident.short for row in rows]
    if not any(part.kind == "bound" for part in trait.traits):
        return shorts
    bounds = window.evidence.trace.work_bounds
    return [f"{short} {bounds[row]}" for row, short in zip(rows, shorts, strict=True)]


def _fits(window: Window, row: int, trait: Selector) -> bool | None:
    """Whether one kernel is what `is …` says."""
    if trait.kind not in ("kernel", "memcpy") or trait.word or trait.name or trait.under:
        return row in select(window, trait).sure
    answers = [has_trait(window.evidence, row, part) for part in trait.traits]
    return False if False in answers else None if None in answers else True


def kernels(window: Window, selector: Selector) -> Selection:
    """The GPU operations that a selector matches; `Unknown` when it matches host events."""
    if not selector.on_gpu:
        raise Unknown(f"`{selector.text}` is not a GPU operation; say for example `every gemm`")
    return select(window, selector)


def judged(
    found: Selection, query: Query, answers: list[bool | None], texts: list[str]
) -> Measurement:
    """The verdict over all kernels, the values that were seen, and the kernels that decide."""
    quantifier, selector = query.args["quantifier"], query.what
    verdict = judge_all(quantifier, answers, found.unclear)
    measured = tally(texts) or f"no {selector.text}"
    why = ""
    if verdict == "unknown":
        lacking = "not every one states it" if answers else f"no {selector.text} to judge"
        why = found.why(selector) if found.unclear else lacking
    triples = zip(found.sure, answers, texts, strict=True)
    breaks = [(row, text) for row, answer, text in triples if answer is (quantifier == "no")]
    if verdict == "miss" and 0 < len(breaks) < len(texts):
        measured = f"{tally([text for _, text in breaks])} (of {len(texts)} {selector.text})"
    return Measurement(verdict, measured, why, rows=[row for row, _ in breaks] or found.sure)


def _own_field(tokens: Sequence[Token], place: int) -> tuple[Field, int]:
    """A field that says by itself which kernels are meant."""
    field, after = read_field(tokens, place)
    if not field.roles:
        raise ParseFailure(place, ["a field of one role of kernels, such as head_dim"])
    return field, after


_AMPERE = ("cutlass", "cublas", "ampere", "sm80")


def is_ampere(selector: Selector) -> bool:
    """Whether it means kernels that cuBLAS uses on Ampere."""
    traits = [trait.value for trait in selector.traits]
    return selector.name.startswith(_AMPERE) or any(value in _AMPERE for value in traits)


@known
def hopper_names(miss: Miss) -> bool:
    """Matmuls with Ampere names were expected, and there are nvjet ones."""
    trait = miss.query.args.get("trait")
    wanted = miss.wants_some and isinstance(trait, Selector) and is_ampere(trait)
    return wanted and miss.has_family("nvjet")


@known
def _vector_width(miss: Miss) -> bool:
    field, value = (miss.query.args.get(name) for name in ("field", "value"))
    four = isinstance(field, Field) and field.name == "vec" and value == "4"
    eight = any(operation.ident.get("vec") == 8 for operation in miss.operations)
    return four and miss.wants_some and eight


@prediction(
    "fields",
    30,
    "{quantifier:quantifier} {what:selector} has|have {field:field} [{compare:compare}] "
    "[{value:value}]",
    "{quantifier:quantifier} {what:selector} is|are {trait:selector}",
    "{quantifier:quantifier} {what:selector} uses|use {trait:selector}",
    "{what:selector} uses|use [no] {trait:selector}",
    "{what:selector} is|are [not] {trait:selector}",
    "{trait:selector} is|are used by|in {what:selector}",
    "{what:selector} is|are [not] {field:field}",
    "{what:selector} has|have {field:field} [{compare:compare}] [{value:value}]",
    "{what:selector} {field:field} {compare:compare} {value:value}",
    "{what:selector} {field:field} is {value:value}",
    "{field:own_field} {compare:compare} {value:value}",
    "{field:own_field} is {value:value}",
    "{what:selector} reaches [{compare:compare}] {peak_share:share} of peak",
    slots={
        "field": Slot("a field of a kernel; see Fields", read_field),
        "own_field": Slot("a field that one role of kernels has, such as head_dim", _own_field),
        "value": Slot(
            "a value of that field: a word, a number, a shape such as 256x128", read_value
        ),
    },
    reasons=(hopper_names, _vector_width),
)
@per_window
def _stated(window: Window, query: Query) -> Measurement:
    """What kernel names state, how kernels were launched, and what bounds them.

    `every gemm has layout tn` judges each kernel, and so does `gemm is compute-bound` without
    `every`. `head_dim` and `causal` come from the recorded arguments of the op where the name does
    not state them. A field that does not apply to a kernel is absent; one that applies and that the
    name does not state leaves the prediction unknown. `every` of nothing is unknown, not true.
    """
    said, query = query, _complete(query)
    found = kernels(window, query.what)
    if found.sure and not found.on_gpu:
        traits: tuple[Trait, ...] = query.args["trait"].traits if "trait" in query.args else ()
        libraries = [trait.value for trait in traits if trait.kind == "family"]
        if len(traits) != 1 or not libraries:
            raise Unknown("these collectives ran on a CPU: their names say the library alone")
        names = [window.evidence.name(event) for event in found.sure]
        named: list[bool | None] = [name.startswith(libraries[0]) for name in names]
        return replace(judged(found, query, named, names), rows=[], events=found.sure)
    if not found.sure and query.what.text == "attention" and written_out(window):
        if "trait" in query.args and query.args["trait"].traits[0].kind == "dtype":
            raise Unknown("attention is written out as matmuls and a softmax: say which are meant")
        verdict = "miss" if query.args["quantifier"] == "every" else "hit"
        return Measurement(verdict, "attention is written out as matmuls and a softmax")
    if "trait" in query.args:
        answers = [_fits(window, row, query.args["trait"]) for row in found.sure]
        measured = judged(found, query, answers, _shown(window, found.sure, query.args["trait"]))
        part = any(each.kind == "group" for each in query.what.traits)  # some only move indices
        enough = 1 if part else 0.9 * len(answers)  # `gemms run in bf16`: of so many it may be said
        nearly = "quantifier" not in said.args and answers.count(True) >= enough
        if nearly and measured.verdict == "miss" and query.args["quantifier"] == "every":
            why = f"not every one: {answers.count(True)} of {len(answers)}"
            return replace(measured, verdict="unknown", why=why)
        return measured
    field: Field = query.args["field"]
    compare, wanted = query.args.get("compare"), query.args.get("value")
    values = [value_of(window.evidence, row, field) for row in found.sure]
    answers = [agrees(value, compare, wanted) for value in values]
    texts = [f"{field.name} {value_text(value)}" for value in values]
    return judged(found, query, answers, texts)


_NO_LAUNCH = "no launch recorded"


def _earlier(window: Window, row: int) -> list[str] | None:
    """The calls that the op made before it launched this kernel."""
    trace = window.evidence.trace
    host, launch, op = trace.host, int(trace.gpu.launch[row]), int(trace.gpu.op[row])
    if launch < 0 or op < 0:
        return None
    begin, end, track = int(host.start[op]), int(host.start[launch]), int(host.track[op])
    inside = Window(window.evidence, "", window.rows, begin, end, track)
    return [window.evidence.name(event) for event in inside.events(host.is_call)]


@known
def occupancy_query(miss: Miss) -> bool:
    """The query was expected before matmuls that are nvjet ones."""
    preceded = miss.wants_some and "preceded" in miss.query.args
    return preceded and miss.names("cudaOccupancy") and miss.has_family("nvjet")


@known
def _triton_launch(miss: Miss) -> bool:
    launched = miss.wants_some and "launched" in miss.query.args
    by_runtime = launched and miss.query.args["call"] == "cudaLaunchKernel"
    return by_runtime and miss.has_family("triton")


def _read_call(tokens: Sequence[Token], place: int) -> tuple[str, int]:
    """A name that no word of the language is: else what comes before is work on the GPU."""
    name, after = read_name(tokens, place)
    if not _CALL.search(name):
        raise ParseFailure(place, ["a call such as cudaMemsetAsync"])
    return name, after


_CALL = regex(r"[a-z][A-Z]|\*")


@prediction(
    "calls",
    25,
    "{quantifier:quantifier} {what:selector} is|are launched by {call:name}",
    "{quantifier:quantifier} {what:selector} is|are preceded by {call:call}",
    slots={"call": Slot("a runtime call such as cudaMemsetAsync, or cuda*", _read_call)},
    reasons=(occupancy_query, _triton_launch),
)
@per_window
def _launched(window: Window, query: Query) -> Measurement:
    """How kernels are launched: by which runtime or driver call, and after which other call of the
    same op.
    """
    if not window.evidence.trace.host.is_call.any():
        raise Unknown(NO_CALLS)
    found, call = kernels(window, query.what), query.args["call"]
    if "launched" in query.args:
        launches = [window.evidence.launch_name(row) for row in found.sure]
        answers = [named(call, name) if name else None for name in launches]
        return judged(found, query, answers, [name or _NO_LAUNCH for name in launches])
    answers, texts = [], []
    for names in [_earlier(window, row) for row in found.sure]:
        preceded = any(named(call, name) for name in names or ())
        answers.append(preceded or (None if names is None or window.gap else False))
        texts.append(_NO_LAUNCH if names is None else " and ".join(names) or "no call")
    return judged(found, query, answers, texts)


def host_ops(window: Window, op: Selector) -> Selection:
    """The calls of a host op; `Unknown` when the selector is something else."""
    if op.kind != "op":
        name = f"aten::{op.word or 'mm'}"
        raise Unknown(f"`{op.text}` is not a host op; write its name, as in {name}")
    return select(window, op)


def _read_shape(tokens: Sequence[Token], place: int) -> tuple[list[int], int]:
    sizes = key_at(tokens, place).split("x")
    if not all(size.isascii() and size.isdigit() and len(size) < 16 for size in sizes):
        raise ParseFailure(place, ["a shape such as 8192x768"])
    return [int(size) for size in sizes], place + 1


@prediction(
    "inputs",
    35,
    "{quantifier:quantifier} {what:selector} takes|take [strides] {shapes:shapes}",
    slots={
        "shapes": Slot(
            "one or more shapes such as 8192x768, with commas or `and`",
            list_of(_read_shape, least=1),
        )
    },
)
@per_window
def _takes(window: Window, query: Query) -> Measurement:
    """The recorded shapes or strides of an op's tensor inputs, in order; scalars and lists are
    skipped.

    Strides tell a transposed view: those of a 64x32 weight are 32x1, those of its `t()` are 1x32.
    """
    if not window.evidence.trace.has("shapes"):
        raise Unknown("no shapes in this trace: record with record_shapes=True")
    op = query.what
    found, word = host_ops(window, op), "strides" if "strides" in query.args else "shapes"
    shapes = [window.evidence.inputs(event, word) for event in found.sure]
    wanted: list[list[int]] = query.args["shapes"]
    answers = [None if taken is None else taken[: len(wanted)] == wanted for taken in shapes]
    verdict = judge_all(query.args["quantifier"], answers, found.unclear)
    lacking = f"some calls have no {word}" if found.sure else f"no {op.text} in {window.label}"
    why = found.gap or lacking if verdict == "unknown" else ""
    texts = [
        f"no {word}" if taken is None else " and ".join("x".join(map(str, one)) for one in taken)
        for taken in shapes
    ]
    measured = tally(texts) or f"no {op.text}"
    return Measurement(verdict, measured, why, events=found.sure)


def _chain(window: Window, event: int) -> list[str] | None:
    """Names of everything around a host event, itself last when it is an op."""
    host = window.evidence.trace.host
    if event < 0:
        return None
    names = []
    while event >= 0:
        if host.is_op[event] or host.is_region[event] or host.is_step[event]:
            names.append(window.evidence.name(event))
        event = int(host.parent[event])
    return names[::-1]


def _read_chain(tokens: Sequence[Token], place: int) -> tuple[list[str], int]:
    # `copies come from pageable memory`, `gemms come from cuBLAS` are about no caller
    if key_at(tokens, place) in (*MEMORY, *FAMILY_WORDS):
        raise ParseFailure(place, ["a name"])
    plain = place < len(tokens) and re.fullmatch("[a-z]+", text_at(tokens, place))
    if plain and not tokens[place].quoted and key_at(tokens, place + 1) not in ("", ">"):
        raise ParseFailure(place, ["a name"])  # `from a graph replay`
    value, place = read_name(tokens, place)
    found = [value]
    while key_at(tokens, place) == ">":
        value, place = read_name(tokens, place + 1)
        found.append(value)
    return found, place


@prediction(
    "origin",
    28,
    "{quantifier:quantifier} {what:selector} comes|come from {chain:chain}",
    slots={"chain": Slot("names between `>`, the outermost first", _read_chain)},
)
@per_window
def _from(window: Window, query: Query) -> Measurement:
    """What launched it: the steps, regions and ops around a kernel or an op, the outermost first.

    The names must appear in this order; others can be between them. `ProfilerStep*` is any step.
    """
    found, launch = select(window, query.what), window.evidence.trace.gpu.launch
    chains = [_chain(window, int(launch[at]) if found.on_gpu else at) for at in found.sure]
    no = None if window.gap else False  # an op above it may be what is missing
    wanted = query.args["chain"]
    answers: list[bool | None] = []
    for chain in chains:
        left = iter(chain or ())
        right = all(any(named(name, found) for found in left) for name in wanted)
        answers.append(None if chain is None else right or no)
    verdict = judge_all(query.args["quantifier"], answers, found.unclear)
    lacking = "some launches were not recorded" if answers else f"no {query.what.text}"
    why = window.gap or f"{lacking} in {window.label}" if verdict == "unknown" else ""
    measured = tally([" > ".join(chain) if chain else "no caller" for chain in chains])
    return from_selection(found, verdict, measured, why)


_UPLOADS = replace(HEADS["memcpy"], text="copies to the GPU", traits=(Trait("direction", "htod"),))
# op -> the place of the weight among its tensors
_WEIGHTS = {
    **dict.fromkeys(("aten::linear", "aten::mm", "aten::_int_mm", "aten::_scaled_mm"), 1),
    **dict.fromkeys(("aten::convolution", "aten::_weight_int8pack_mm"), 1),
    **dict.fromkeys(("aten::addmm", "aten::_addmm_activation"), 2),
}


def _copied(window: Window, query: Query) -> Measurement:
    """Whether a copy to the GPU has the shape of a weight, and of no activation."""
    rows = certain(window, _UPLOADS).sure
    if not rows:
        return Measurement(query.hit_if(False), "0 copies to the GPU")
    evidence, ops = window.evidence, window.evidence.trace.origins.op
    copied = [_shape(evidence, int(ops[row]), 0) for row in rows]
    host = evidence.trace.host
    events = np.flatnonzero(host.is_op & host.lasting & host.named(lambda name: name in _WEIGHTS))
    calls = [(event, _WEIGHTS[evidence.name(event)]) for event in events.tolist()]
    weights = {_shape(evidence, event, place) for event, place in calls}
    others = {_shape(evidence, event, max(place - 1, 0)) for event, place in calls}
    known = {shape for shape in weights - others if len(shape) > 1}
    found = [row for row, shape in zip(rows, copied, strict=True) if {shape, shape[::-1]} & known]
    measured = f"{len(found)} of {len(rows)} copies to the GPU have the shape of a weight"
    if not any(weights):
        raise Unknown("no shapes in this trace: record with record_shapes=True")
    if not found:
        raise Unknown(f"{measured}, and the trace does not say what else they are")
    return Measurement(query.hit_if(True), measured, rows=found)


def _shape(evidence: Evidence, event: int, place: int) -> tuple[int, ...]:
    shapes = evidence.inputs(event, "shapes") if event >= 0 else None
    return tuple(shapes[place]) if shapes and place < len(shapes) else ()


def _typed(window: Window, query: Query) -> Measurement:
    trace, wanted = window.evidence.trace, query.args["dtype"]
    if not trace.has("shapes"):
        raise Unknown("no types in this trace: record with record_shapes=True")
    host = trace.host
    mask = host.is_op & host.lasting
    called = [(int(event), window.evidence.name(event)) for event in window.events(mask)]
    calls = {event: name for event, name in called if name in _WEIGHTS and is_forward(host, event)}
    for event in [*calls]:
        above = event
        while (above := int(host.parent[above])) >= 0:
            calls.pop(above, None)  # linear calls mm
    weights: dict[int, str | None] = {}
    for event, name in calls.items():
        types = types_of(window.evidence, event) or []
        known = _WEIGHTS[name] < len(types) and "?" not in types
        weights[event] = types[_WEIGHTS[name]] if known else None
    if not any(weights.values()):
        raise Unknown("no matmul or convolution with recorded types")
    answers = [None if kind is None else kind == wanted for kind in weights.values()]
    taken = any(wanted in (types_of(window.evidence, event) or ()) for event, _ in called)
    measured = tally([kind or "not recorded" for kind in weights.values()])
    if taken and True not in answers:
        why = f"an op takes {wanted}, and the trace does not say whether it is a weight"
        return Measurement("unknown", measured, why)
    denied = "not" in query.args
    verdict = judge_all("no" if denied else "every", answers, unclear=bool(window.gap))
    return Measurement(verdict, measured, events=list(weights))


def is_forward(host: Host, event: int) -> bool:
    """Whether it is outside the backward pass."""
    return not any(op.startswith(ENGINE) for op in host.op_chain(event))


@prediction(
    "weights",
    31,
    "weights is|are [not] {dtype:dtype}",
    "weights uses|use {dtype:dtype}",
    "weights are [not] copied",
    expected=lambda args: f"{'not ' if 'not' in args else ''}{args.get('dtype', 'copied')}",
    slots={"dtype": Slot(", ".join(DTYPES), one_of(DTYPES))},
)
@per_window
def _weights(window: Window, query: Query) -> Measurement:
    """The weights: the type of what the matmuls and convolutions of the forward pass take as such,
    and whether they are copied to the GPU.

    The recorded types of their ops decide. Weights that another op casts or unpacks first are not
    seen: where an op takes the type in question and no matmul does, the prediction is unknown. A
    copy is one of a weight where it has the shape of one and of no activation.
    """
    return (_copied if "copied" in query.args else _typed)(window, query)


_VENDORS = {"gfx": "amd", "sm": "nvidia"}  # how the names of their architectures begin


@prediction(
    "card",
    27,
    "card is [not] {name:name}",
    expected=lambda args: f"{'not ' if 'not' in args else ''}{args['name']}",
)
def _card(query: Query) -> Measurement:
    """Which card ran the program, by a word of its name or by its vendor."""
    about, wanted = query.windows[0].evidence.trace.about, str(query.args["name"]).lower()
    arch = re.sub(r"\d.*", "", about.arch or "")
    vendor, device = _VENDORS.get(arch, ""), (about.device or "").lower()
    by_vendor = wanted in _VENDORS.values()
    if not (vendor if by_vendor else re.search(r"\d", device)):
        raise Unknown("the trace does not name its card")
    right = wanted == vendor if by_vendor else wanted in re.split(r"\W+", device)
    return Measurement(query.hit_if(right), about.device or vendor)
