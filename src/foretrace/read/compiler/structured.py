"""A record of a structured log: a JSON object, and a payload that its md5 vouches for."""

from __future__ import annotations

import hashlib
import json
from sys import intern
from typing import Any

import msgspec

from foretrace.read.compiler.heads import compile_id
from foretrace.read.compiler.records import LogRecord
from foretrace.read.compiler.strings import Strings

# keys that any record may have beside its own
_COMMON = """
    rank compiled_autograd_id frame_id frame_compile_id attempt severity timestamp pathname thread
    process lineno subgraph_name has_payload stack
"""
COMMON = frozenset(_COMMON.split())
# what torch 2.3 to 2.13 write
_KINDS = """
    aot_autograd_backward_compilation_metrics aot_backward_graph aot_forward_graph
    aot_inference_graph aot_joint_graph artifact bwd_compilation_metrics
    bwd_compilation_metrics_runtime chromium_event compilation_metrics compilation_metrics_runtime
    compiled_autograd_graph create_symbol create_unbacked_symbol describe_source describe_storage
    describe_tensor dump_file dynamo_cpp_guards_str dynamo_guards dynamo_output_graph dynamo_start
    export exported_program expression_created graph_dump guard_added guard_added_fast
    guard_on_data_dependent_error inductor_input_graph inductor_output_code
    inductor_post_grad_graph inductor_pre_grad_graph link mismatched_fake_kernel
    missing_fake_kernel optimize_ddp_split_child optimize_ddp_split_graph propagate_real_tensors
    propagate_real_tensors_provenance str symbolic_shape_specialization
"""
KINDS = frozenset(_KINDS.split())
KNOWN = KINDS | COMMON


def metadata_of(text: bytes) -> dict[str, Any] | None:
    """The JSON object after a head; None when it is damaged."""
    try:
        found = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        try:  # Python writes NaN, and halves of surrogate pairs
            found = json.loads(text, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, dict) and found else None


def payload_of(lines: bytes) -> bytes:
    """The lines below a head, without their tabs."""
    return lines.removeprefix(b"\t").replace(b"\n\t", b"\n")


def vouched(payload: bytes, digest: object) -> bytes | None:
    """The payload as torch hashed it; None if it is not that, or has no digest."""
    if not isinstance(digest, str):
        return None if payload else payload
    if _md5(payload) == digest:
        return payload
    unix = payload.replace(b"\r\n", b"\n").removesuffix(b"\r")  # copied through Windows
    below = payload.rstrip(b"\n")  # empty lines that follow the record
    for form in (unix, below):
        if len(form) < len(payload) and _md5(form) == digest:
            return form
    return None


def _md5(payload: bytes) -> str:
    return hashlib.md5(payload, usedforsecurity=False).hexdigest()


def sound(payload: bytes, *, alone: bool) -> bool:
    """Whether a payload may be read although its digest differs: it is UTF-8 in any case.

    People replace names and paths before they share a log, which leaves whole JSON, or text. Text
    may as well be cut, so it must stand `alone`: between two records, without damaged lines.
    """
    try:
        text = payload.decode("utf-8")
        if text.lstrip().startswith(("{", "[")):
            msgspec.json.decode(text, type=msgspec.Raw)
            return True
    except (ValueError, RecursionError):
        return False
    return alone and "\0" not in text


def record_of(
    metadata: dict[str, Any], payload: bytes, strings: Strings, pid: int, line: int
) -> LogRecord:
    """The record that a head and its payload make. Raises `RecursionError` for nested values."""
    kind = next((key for key in metadata if key not in COMMON), "")
    value = strings.resolve(pid, metadata.get(kind))
    fields = value if isinstance(value, dict) else {"value": value}
    if "stack" in metadata and "stack" not in fields:
        fields["stack"] = strings.resolve(pid, metadata["stack"])
    name, rank, attempt = fields.get("name"), metadata.get("rank"), metadata.get("attempt")
    return LogRecord(
        kind=intern(kind),
        name=intern(name) if kind == "artifact" and isinstance(name, str) else "",
        compile_id=intern(compile_id(metadata)),
        attempt=attempt if isinstance(attempt, int) else 0,
        rank=rank if isinstance(rank, int) else None,
        pid=pid,
        fields=fields,
        payload=payload,
        line=line,
    )
