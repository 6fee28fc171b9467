"""Attention through scaled_dot_product_attention, of a Transformers model or of a script."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from msgspec import Struct
from msgspec.structs import replace
from torch.utils._pytree import tree_map

from foretrace.record.profiling.patches import replaced
from foretrace.record.tries.rounds import Edit
from foretrace.record.tries.session import Session, Switch


class _Sdpa(Switch):
    """Let a Transformers model use scaled_dot_product_attention in the place of written attention.

    The configuration says which one a model uses, at each call. Attention that the script itself
    writes out is left to the compiler, which knows the common forms.
    """

    name, title = "sdpa", "scaled_dot_product_attention"
    write, realises = 'model.set_attn_implementation("sdpa")', ("fused_attention",)
    _before: Sequence[tuple[Any, str, bool]] = ()  # configurations, outer ones first

    def why_not(self) -> str:
        models = self._models()
        if not models:
            return "no Transformers model"
        kinds = sorted({str(each.config._attn_implementation) for each in models})
        if "eager" not in kinds:
            return f"attention is {', '.join(kinds)} already"
        if not any(_takes(each) for each in models):
            return f"{type(models[0]).__name__} does not support scaled_dot_product_attention"
        return ""

    def turn(self, on: bool) -> None:
        if not self._before:
            models = self._models()
            self._before = [(m.config, m.config._attn_implementation, _takes(m)) for m in models]
        # to set one sets those inside it as well; they follow
        for config, kind, takes in self._before:
            config._attn_implementation = "sdpa" if on and takes else kind

    def _models(self) -> list[Any]:
        """The models with a configuration of their own, the outermost first."""
        found = self.session.modules(torch.nn.Module)
        named = [each for each in found if hasattr(each, "set_attn_implementation")]
        return list({id(each.config): each for each in reversed(named)}.values())[::-1]


def _takes(model: Any) -> bool:
    """Whether a model that writes its attention out can use the function."""
    able = model._supports_sdpa and model._can_set_attn_implementation()
    return bool(able) and model.config._attn_implementation == "eager"


HEADED, MOST_WIDE = 4, 256  # dimensions, and the size of a head, that fused kernels take
HIDDEN = -1e4  # a score as low as this is masked
SURE = 2  # masks of one place in the script that are looked at; the next ones are like them
Tensor: Any = torch.Tensor
MATMULS = (torch.matmul, Tensor.matmul, Tensor.__matmul__)  # before the script can see ours
PLACES = ((torch, "matmul"), (Tensor, "matmul"), (Tensor, "__matmul__"))


class _Note(Struct, frozen=True):
    """Attention so far: its tensors, what the script requests, and the calls that request it."""

    query: Any
    key: Any  # transposed, as the script gives it
    finish: Callable[[Any, Any], Any]
    scale: float = 1.0
    mask: Any = None
    is_softmax: bool = False
    dropout: float = 0.0
    calls: tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], ...] = ()


class _OtherUseError(Exception):
    """The scores are used in another way than attention uses them."""


class _Scores(torch.Tensor):  # type: ignore[misc]
    """Scores or weights that are not computed yet; `value` has them once they are."""

    note: _Note
    value: Any = None

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, given: Any = (), options: Any = None
    ) -> Any:
        options = options or {}
        if function in PROPERTIES:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*given, **options)
        noted = NOTED.get(function)
        if noted is not None and isinstance(given[0], cls) and given[0].value is None:
            with contextlib.suppress(_OtherUseError):
                return noted(given[0], function, *given[1:], **options)
        given, options = tree_map(_computed, (given, options))
        return function(*given, **options)

    @classmethod
    def __torch_dispatch__(cls, op: Any, *_: Any) -> Any:
        raise NotImplementedError(f"{op} of scores that are not computed")  # Python did not see it


def _put_off(note: _Note) -> Any:
    shape = (*note.query.shape[:-1], note.key.shape[-1])
    like = {"dtype": note.query.dtype, "device": note.query.device}
    scores = Tensor._make_wrapper_subclass(_Scores, shape, **like)
    scores.note = note
    return scores


def _computed(value: Any) -> Any:
    if not isinstance(value, _Scores):
        return value
    if value.value is None:
        done = MATMULS[0](value.note.query, value.note.key)
        for function, given, options in value.note.calls:
            done = function(done, *given, **options)
        value.value = done
    return value.value


def _next(scores: Any, call: tuple[Any, tuple[Any, ...], dict[str, Any]], **asked: Any) -> Any:
    return _put_off(replace(scores.note, calls=(*scores.note.calls, call), **asked))


def _scaled(scores: Any, function: Any, by: Any) -> Any:
    note = scores.note
    if note.mask is not None or note.is_softmax or not isinstance(by, int | float) or by <= 0:
        raise _OtherUseError
    scale = note.scale / by if function in DIVISIONS else note.scale * by
    return _next(scores, (function, (by,), {}), scale=scale)


def _masked(scores: Any, function: Any, mask: Any, value: Any) -> Any:
    hidden = isinstance(value, int | float) and value <= HIDDEN and mask.dtype == torch.bool
    if scores.note.mask is not None or scores.note.is_softmax or not hidden:
        raise _OtherUseError
    return _next(scores, (function, (mask, value), {}), mask=mask)


def _softmax(scores: Any, function: Any, dim: Any = None, **options: Any) -> Any:
    is_last = dim in (-1, HEADED - 1) and options.get("dtype") in (None, scores.dtype)
    if scores.note.is_softmax or not is_last:
        raise _OtherUseError
    return _next(scores, (function, (dim,), options), is_softmax=True)


def _dropped(
    scores: Any, function: Any, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Any:
    if not scores.note.is_softmax or scores.note.dropout or inplace:
        raise _OtherUseError
    return _next(scores, (function, (p, training), {}), dropout=p if training else 0.0)


def _attended(scores: Any, function: Any, values: Any) -> Any:
    query = scores.note.query
    if not scores.note.is_softmax or values.ndim != HEADED or values.dtype != query.dtype:
        raise _OtherUseError
    return scores.note.finish(scores, values)


DIVISIONS = (torch.div, Tensor.div, Tensor.__truediv__)
PROPERTIES = {getattr(Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim")}
PROPERTIES |= {Tensor.size, Tensor.dim}
NOTED: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((*DIVISIONS, torch.mul, Tensor.mul, Tensor.__mul__), _scaled),
    **dict.fromkeys((torch.masked_fill, Tensor.masked_fill), _masked),
    **dict.fromkeys((F.softmax, torch.softmax, Tensor.softmax), _softmax),
    **dict.fromkeys(MATMULS, _attended),
    F.dropout: _dropped,
}


class _WrittenAttention(Switch):
    """Compute attention that the script writes out with scaled_dot_product_attention.

    The matmul of queries and keys is put off. What the script does with its result is noted: a
    scale, a mask, a softmax, a dropout. If a matmul with the values follows, one call of the
    function replaces them all. Anything else computes what was noted first. The compiler sees
    attention as it is written.
    """

    name, title = "written_attention", "SDPA for written attention"
    write = "F.scaled_dot_product_attention(q, k, v)"
    realises, group = ("fused_attention",), "compile"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._masks: dict[int, list[bool]] = {}  # by line of the script: whether each was causal
        self._patches = contextlib.ExitStack()
        self._watch()

    def why_not(self) -> str:
        self._patches.close()  # the first steps have shown it
        return "" if self._masks else "no attention is written out as matmul, softmax, matmul"

    def turn(self, on: bool) -> None:
        super().turn(on)
        self._patches.close()
        if on:
            self._watch()

    def edits(self) -> list[Edit]:
        call = "F.scaled_dot_product_attention(q, k, v{})"
        found = []
        for line, seen in self._masks.items():
            masked = ", is_causal=True" if all(seen) else ", attn_mask=~mask"
            found += [Edit("by hand", call.format(masked if seen else ""), line)] if line else []
        return found

    def _watch(self) -> None:
        for owner, name in PLACES:
            self._patches.enter_context(replaced(owner, name, self._waiting))

    def _waiting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def matmul(query: Any, key: Any, **options: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(query, key, **options)
            if isinstance(query, _Scores):
                return _Scores.__torch_function__(original, (), (query, key), options)
            if options or not _may_be_scores(query, key):
                return original(query, key, **options)
            return _put_off(_Note(query, key, self._finish))

        return matmul

    def _finish(self, scores: Any, values: Any) -> Any:
        note = scores.note
        seen = self._masks.setdefault(self.session.line(), [])
        if note.mask is not None and len(seen) < SURE:
            seen.append(_is_causal(note.mask, *scores.shape[-2:]))
        if not self.on:
            return MATMULS[0](_computed(scores), values)
        is_causal = bool(seen) and all(seen)
        mask = None if is_causal or note.mask is None else ~note.mask
        return F.scaled_dot_product_attention(
            note.query, note.key.mT, values, mask, note.dropout, is_causal, scale=note.scale
        )


def _may_be_scores(query: Any, key: Any) -> bool:
    """Whether the second tensor is transposed, as keys are, and both have heads."""
    if type(query) is not Tensor or type(key) is not Tensor:
        return False
    if not query.ndim == key.ndim == HEADED or query.shape[:2] != key.shape[:2]:
        return False
    return bool(query.is_floating_point()) and query.shape[-1] <= MOST_WIDE and key.stride(-2) == 1


def _is_causal(mask: Any, rows: int, columns: int) -> bool:
    """Whether it hides what comes later, for all batches and heads."""
    if rows != columns or mask.shape[-2:] != (rows, columns) or mask.numel() != rows * columns:
        return False
    flat = mask.reshape(rows, columns)
    return bool(torch.equal(flat, torch.ones_like(flat).triu(1)))
