"""The process groups of a plan, named by number in the order in which every rank makes them."""

from __future__ import annotations

from msgspec import Struct

from jobs.plan.plan import Plan


class Group(Struct, frozen=True):
    """A process group; `kind` is world, data, tensor or pipeline."""

    name: str
    kind: str
    ranks: tuple[int, ...]

    @property
    def description(self) -> str:
        return "default_pg" if self.kind == "world" else f"mesh_{self.kind}"


def groups(plan: Plan) -> list[Group]:
    """All groups of a plan; a group of one rank does not exist."""
    world = tuple(range(plan.world))
    found = [Group("0", "world", world)]
    for kind, size in (("tensor", plan.tensor), ("data", plan.data), ("pipeline", plan.pipeline)):
        if size == 1:
            continue
        if size == plan.world:
            found.append(Group(str(len(found)), kind, world))
            continue
        keys = sorted({_others(plan, rank, kind) for rank in world})
        for key in keys:
            ranks = tuple(rank for rank in world if _others(plan, rank, kind) == key)
            found.append(Group(str(len(found)), kind, ranks))
    return found


def place(plan: Plan, rank: int) -> dict[str, int]:
    """Where a rank is in each kind of parallelism."""
    rest, tensor = divmod(rank, plan.tensor)
    pipeline, data = divmod(rest, plan.data)
    return {"tensor": tensor, "data": data, "pipeline": pipeline}


def _others(plan: Plan, rank: int, kind: str) -> tuple[int, ...]:
    return tuple(at for name, at in place(plan, rank).items() if name != kind)
