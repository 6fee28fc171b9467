"""`foretrace name --json`: the parts of a kernel name; names from stdin give a list.

Two names give the document of the first, with the second as `other` and what differs as `changed`.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from foretrace.schema.kernel import FieldChange, KernelId, Part


class OnCard(Struct, frozen=True):
    """The kernel's chip generation against that of the card that `--gpu` names."""

    arch: str
    text: str


class DecodedName(Struct, frozen=True):
    """What a kernel's name says, and which part of it says so."""

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

    @classmethod
    def of(cls, kernel: KernelId, gpu: OnCard | UnsetType = UNSET) -> DecodedName:
        """The document of a decoded name."""
        told = (kernel.name, kernel.short, kernel.family, kernel.role, dict(kernel.fields))
        return cls(1, *told, kernel.parts, gpu)


DOCUMENT = DecodedName
