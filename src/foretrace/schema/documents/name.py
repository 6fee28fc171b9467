"""`foretrace explain --json`: the parts of a kernel name; names from stdin give a list.

Two names give the document of the first, with the second as `other` and what differs as `changed`.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from foretrace.schema.kernel import FieldChange, KernelId, Part


class OnCard(Struct, frozen=True):
    """The kernel's chip generation against that of the card that `--gpu` names."""

    arch: str
    text: str


class NameLaunch(Struct, frozen=True):
    """One way in which a trace launches the kernel; None where that is not recorded.

    `op` launched it, `dims` is its first tensor. `block_size` is what Liger's source makes of the
    columns where one program does one row.
    """

    count: int
    grid: list[int] | None
    block: list[int] | None
    warps: int | None
    registers: int | None
    shared_memory: int | None
    op: str
    dims: list[int] | None
    block_size: int | None


class DecodedName(Struct, frozen=True):
    """What a kernel's name says, and which part of it says so.

    `launches` is how the trace of `--in` launched it.
    """

    schema: int
    name: str
    short: str
    family: str
    role: str
    fields: dict[str, str | int | bool | list[int | str] | None]
    parts: tuple[Part, ...]
    gpu: OnCard | UnsetType = UNSET
    other: DecodedName | UnsetType = UNSET
    changed: tuple[FieldChange, ...] | UnsetType = UNSET
    launches: list[NameLaunch] | UnsetType = UNSET

    @classmethod
    def of(cls, kernel: KernelId, gpu: OnCard | UnsetType = UNSET) -> DecodedName:
        """The document of a decoded name."""
        told = (kernel.name, kernel.short, kernel.family, kernel.role, dict(kernel.fields))
        return cls(1, *told, kernel.parts, gpu)


DOCUMENT = DecodedName
