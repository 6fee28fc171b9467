"""`foretrace lab shapes --json`: what each contender pays when the shape changes."""

from __future__ import annotations

from msgspec import Struct

ShapeValues = dict[str, int | str | bool]


class AgainstFirst(Struct, frozen=True):
    """Wall time over that of the first variant; `beyond`: whether it differs by more than noise."""

    ratio: float | None
    noise: float | None
    beyond: bool | None


class ShapeVisit(Struct, frozen=True):
    """A contender at one shape; `compiled` is None for a contender without torch.compile."""

    first_call_ns: int
    stall_ns: float
    compile_s: float
    graphs: int
    recompiles: list[str]
    gave_up: list[str]
    compiled: bool | None
    wall_ns: float | None
    wall_spread_ns: float | None
    host_ns: float | None
    gpu_ns: float | None
    against_first: AgainstFirst


class ContenderVisits(Struct, frozen=True):
    """A contender at every shape, in the order of the shapes."""

    name: str
    what: str
    graphs: int
    recompiles: int
    stall_ns: float
    visits: list[ShapeVisit]


class LeftOutContender(Struct, frozen=True):
    """A contender that could not run, and why."""

    name: str
    why: str


class ShapesDocument(Struct, frozen=True):
    """What a sweep found. `first` is the variant that all are compared with.

    `fixed` holds the sizes that the sweep does not set. `compiler_cache` is empty or kept.
    """

    schema: int
    rung: str
    device: str
    torch: str
    dtype: str
    shapes: list[ShapeValues]
    fixed: ShapeValues
    first: str
    compiler_cache: str
    compiler_start_ns: int | None
    recompile_limit: int | None
    contenders: list[ContenderVisits]
    left_out: list[LeftOutContender]


DOCUMENTS = {"shapes": ShapesDocument}
