"""What a step waits for: values and synchronization of the GPU, and batches of a DataLoader."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader

from foretrace.record.profiling.run_record import CORES
from foretrace.record.tries.rounds import Edit
from foretrace.record.tries.session import GPU, Session, Switch

_item = torch.Tensor.item


def _now(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *given: function(_item(self._tensor), *given)


def _later(function: Callable[..., Any]) -> Callable[..., Any]:
    def computed(self: Later, other: Any) -> Later:
        return Later(function(self._tensor, getattr(other, "_tensor", other)))

    return computed


class Later:
    """A number that is read from the GPU when it is used; sums of such numbers wait as well."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    __add__ = __radd__ = _later(operator.add)
    __mul__ = __rmul__ = _later(operator.mul)
    __truediv__ = _later(operator.truediv)
    __float__, __bool__, __int__ = _now(float), _now(bool), _now(int)
    __index__ = __int__
    __format__, __repr__, __hash__ = _now(format), _now(repr), _now(hash)
    __eq__, __lt__, __gt__ = _now(operator.eq), _now(operator.lt), _now(operator.gt)

    def __getattr__(self, name: str) -> Any:
        """Whatever else a number has, now."""
        return getattr(_item(self._tensor), name)


class _DeferredReads(Switch):
    """Read `.item()` late: the value is fetched when something needs it, not while the step runs.

    A logged loss then costs no wait. Where the value decides what to do next, nothing is won.
    """

    name, title = "deferred_reads", "losses read later"
    write = "keep loss.detach(), call .item() after the loop"
    realises, tolerance, devices = ("scalar_reads",), 1e-5, GPU
    unused = "nothing is read from the GPU with .item()"

    def __init__(self, session: Session) -> None:
        super().__init__(session)

        def item(tensor: Any) -> Any:
            if not tensor.is_cuda or not session.by_user():
                return _item(tensor)
            self.calls += 1
            return Later(tensor.detach().clone()) if self.on else _item(tensor)

        torch.Tensor.item = item


class _NoSynchronize(Switch):
    """Take out calls of `torch.cuda.synchronize` and `torch.cuda.empty_cache`.

    Results do not depend on them. A script that times itself with them then measures launches.
    """

    name, title = "no_synchronize", "no synchronize, no empty_cache"
    write = "remove torch.cuda.synchronize() and torch.cuda.empty_cache()"
    realises, tolerance, devices = ("synchronize", "allocator"), 1e-5, GPU
    unused = "the script calls neither in its steps"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        for name in ("synchronize", "empty_cache"):
            setattr(torch.cuda, name, self._left_out(getattr(torch.cuda, name)))

    def _left_out(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            self.calls += self.session.losses is not None and self.session.by_user()
            return None if self.on else original(*arguments, **options)

        return called


class LoaderSwitch(Switch):
    """Gives DataLoaders other options where the script makes them; turned on before that."""

    unused = "no DataLoader"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.made: list[tuple[Any, int]] = []
        original = DataLoader.__init__

        def init(loader: Any, *arguments: Any, **options: Any) -> None:
            self.made.append((loader, session.line(loader)))
            if self.on:
                options |= self.options(options)
            original(loader, *arguments, **options)

        DataLoader.__init__ = init

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options to add to those given."""
        raise NotImplementedError

    def edits(self) -> list[Edit]:
        """At each place where the script makes a loader."""
        words = ", ".join(f"{name}={value!r}" for name, value in self.options({}).items())
        return [Edit("add", words, line, "DataLoader") for _, line in self.made if line]


WORKERS = max(min(CORES - 1, 8), 1)
AHEAD = 4  # batches for each worker; torch's default is 2


class _LoaderWorkers(LoaderSwitch):
    """Load batches in worker processes, ahead of the step that uses them.

    A loader that has workers gets as many as there are cores for, which stay from epoch to epoch,
    and `prefetch_factor=4`: each loads four batches ahead.
    """

    name, title, fresh = "loader_workers", "DataLoader workers", True
    write = f"DataLoader(..., num_workers={WORKERS}, persistent_workers=True)"
    realises = ("data_loader",)

    def why_not(self) -> str:
        if not self.made:
            return self.unused
        ahead = all(
            loader.num_workers >= WORKERS
            and loader.persistent_workers
            and loader.prefetch_factor >= AHEAD
            for loader, _ in self.made
        )
        return "the loader has workers already" if ahead else ""

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        workers = given.get("num_workers") or 0
        found = {"num_workers": max(workers, WORKERS), "persistent_workers": True}
        ahead = max(given.get("prefetch_factor") or 0, AHEAD)
        return found | {"prefetch_factor": ahead} if workers else found


class _PinnedLoader(LoaderSwitch):
    """Load batches into pinned memory, and copy them to the GPU without waiting."""

    name, title, fresh = "pinned_loader", "pinned batches", True
    write = "DataLoader(..., pin_memory=True), x.to(device, non_blocking=True)"
    realises, devices = ("pinned_copies", "data_loader"), GPU

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        for name in ("to", "cuda"):
            setattr(torch.Tensor, name, self._without_waiting(getattr(torch.Tensor, name)))

    def why_not(self) -> str:
        if not self.made or self.calls:  # copies from pinned memory that wait all the same
            return super().why_not()
        pinned = all(loader.pin_memory for loader, _ in self.made)
        return "batches are pinned, and no copy waits" if pinned else ""

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"pin_memory": True}

    def _without_waiting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def moved(tensor: Any, *arguments: Any, **options: Any) -> Any:
            # a bool in its place is `non_blocking`, too
            said = "non_blocking" in options or any(isinstance(each, bool) for each in arguments)
            here = not said and tensor.device.type == "cpu" and self.session.device == "cuda"
            waits = here and tensor.is_pinned()
            if waits and self.on:
                options["non_blocking"] = True
            result = original(tensor, *arguments, **options)
            self.calls += waits and result.is_cuda
            return result

        return moved
