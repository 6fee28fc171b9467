"""`foretrace look TRACE --json`: what one trace holds, and what the rules found in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from foretrace.schema.display import Displayed
from foretrace.schema.ledger import LedgerEntry

SCHEMA = 1


class TraceEntry(Struct):
    """Where a trace comes from, and its size."""

    path: str
    source: str
    device: str | None
    arch: str | None
    rank: int | None
    events: int
    steps: int
    regions: int


class Totals(Struct, frozen=True):
    """Counts and GPU time of the whole recording; times are null when no GPU event has one."""

    kernels: int
    memcpys: int
    memsets: int
    launches: int
    syncs: int
    gpu_busy_ns: int | None
    gpu_span_ns: int | None
    cpu_ops: int


class StepRow(Struct, frozen=True):
    """One profiler step."""

    name: str
    index: int | None
    cpu_ns: int
    kernels: int
    memcpys: int
    memsets: int
    gpu_busy_ns: int | None
    gpu_idle_ns: int | None
    bound: str


class RegionRow(Struct, frozen=True):
    """All calls of one `record_function` region."""

    name: str
    count: int
    cpu_ns: int
    kernels_per_call: int | float
    roles_per_call: dict[str, int | float]
    gpu_busy_ns: int | None
    bound: str


class KernelRow(Struct, frozen=True):
    """Kernels of one name and op shapes; `chain` holds the ops above, outermost first."""

    name: str
    short: str
    family: str
    role: str
    fields: Mapping[str, Any]
    count: int
    per_step: int | float | None
    total_ns: int | None
    median_ns: int | float | None
    min_ns: int | None
    max_ns: int | None
    ops: list[str]
    chain: list[str]
    flops: int | None
    bytes: int | None
    tflops: float | None
    gbps: float | None
    bound: str


class OpRow(Struct, frozen=True):
    """All calls of one host op; `kernels` counts those launched anywhere below it."""

    name: str
    count: int
    self_cpu_ns: int
    total_cpu_ns: int
    kernels: int | None
    metadata_only: bool | None


class FindingEntry(Struct, frozen=True):
    """What one rule says; `at_most_ns` bounds what a repair can save, per step if there are any."""

    rule: str
    state: str
    title: str
    detail: str
    at_most_ns: int | None
    evidence: Mapping[str, Any]
    events: list[int]


class Look(Displayed, Struct, dict=True):
    """What one trace holds. The JSON omits `sentences`, the summary that a notebook shows."""

    schema: int
    trace: TraceEntry
    ledger: LedgerEntry
    totals: Totals
    steps: list[StepRow]
    regions: list[RegionRow]
    kernels: list[KernelRow]
    ops: list[OpRow]
    findings: list[FindingEntry]

    @property
    def sentences(self) -> list[str]:
        """The summary in plain sentences; empty when the document was read from JSON."""
        said: list[str] = self.__dict__.get("_sentences", [])
        return said

    @sentences.setter
    def sentences(self, said: list[str]) -> None:
        self.__dict__["_sentences"] = said


DOCUMENT = Look
