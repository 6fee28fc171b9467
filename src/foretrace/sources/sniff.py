"""When a file is not a profiler trace, say what it is and what to do instead.

Each row looks at the first bytes after containers were taken off. Nothing is ever unpickled or
handed to another reader.
"""

from __future__ import annotations

import re

from foretrace.errors import TraceError

_WRONG = "E_WRONG_FORMAT"
_PICKLE_HINT = "memory snapshots are not read here; open them in torch's memory viewer"

# (pattern at the start, code, what it is, what to do)
_SIGNS: tuple[tuple[bytes, str, str, str], ...] = (
    (rb"\x80[\x02-\x05]", "E_PICKLE", "a Python pickle (never loaded)", _PICKLE_HINT),
    (
        rb"SQLite format 3\0",
        _WRONG,
        "an SQLite database (an Nsight Systems export?)",
        "record with torch.profiler",
    ),
    (rb"NVR\0", _WRONG, "an Nsight Compute report", "record with torch.profiler"),
    (rb"\xfd7zXZ\0", _WRONG, "xz-compressed", "unpack it with `xz -d`"),
    (rb"BZh[1-9]", _WRONG, "bzip2-compressed", "unpack it with `bunzip2`"),
    (rb"\x7fELF", "E_NOT_A_TRACE", "a program", "give a trace"),
    (
        rb"version https://git-lfs",
        "E_NOT_A_TRACE",
        "a Git LFS pointer, not the trace itself",
        "run `git lfs pull`",
    ),
    (
        rb"\s*<",
        "E_NOT_A_TRACE",
        "HTML or XML (an error page saved as a trace?)",
        "download the trace again",
    ),
    (
        rb"\s*[\[{]\s*'",
        "E_NOT_A_TRACE",
        "looks like a Python repr, not JSON",
        "write it with json.dump",
    ),
    (
        rb"[\[{]\0|\0[\[{]",
        "E_ENCODING",
        "UTF-16 without a byte-order mark",
        "convert it with `iconv -f UTF-16 -t UTF-8`",
    ),
    (
        rb"\s*\{\s*\"schema\"\s*:\s*\"[\d.]+",
        _WRONG,
        "a PyTorch execution trace, not a profiler trace",
        "record with torch.profiler.profile",
    ),
    (
        rb"\s*\[\s*\[\s*-?[\d.]",
        _WRONG,
        "a PyTorch memory timeline, not a profiler trace",
        "record with torch.profiler.profile and export_chrome_trace",
    ),
)


def refuse_non_json(path: str, first: bytes, depth_limit: int) -> None:
    """Raise the `TraceError` that fits when `first` cannot begin a trace."""
    text = first.lstrip(b" \t\r\n")
    if not text:
        return
    for pattern, code, what, hint in _SIGNS:
        if re.match(pattern, first):
            raise TraceError(code, path, what, offset=0, hint=hint)
    if first.startswith(b"\n") and (not text.startswith((b"{", b"[")) or b"\x12" in first[:64]):
        _refuse_protobuf(path, first)
    if not text.startswith((b"{", b"[")):
        offset = len(first) - len(text)
        raise TraceError(
            "E_NOT_A_TRACE",
            path,
            f"does not begin with {{ or [ but with {_shown(text)}",
            offset=offset,
            hint="give a Chrome-trace JSON file as torch.profiler writes it",
        )
    if re.match(rb"\s*(\[\s*){%d}" % (depth_limit + 1), first):
        raise TraceError(
            "E_TOO_DEEP",
            path,
            f"nested deeper than {depth_limit}",
            offset=depth_limit,
            hint="raise it with --limit depth=NUMBER",
        )


def _refuse_protobuf(path: str, first: bytes) -> None:
    if b"/host:" in first or b"/device:" in first or b"XSpace" in first:
        what, hint = "an XPlane protobuf (TensorFlow or JAX profiler)", "record with torch.profiler"
    else:
        what, hint = (
            "a Perfetto protobuf trace",
            "open it at ui.perfetto.dev, or export Chrome JSON from torch.profiler",
        )
    raise TraceError(_WRONG, path, what, offset=0, hint=hint)


def _shown(text: bytes) -> str:
    return ascii(text[:12].decode("latin-1"))


def refuse_no_events(path: str, start: bytes, whole: bool) -> TraceError:
    """The error for a JSON document in which no list of events was found."""
    if re.match(rb'\s*\{\s*"[^"]+"\s*:.*\}\s*\n\s*\{\s*"', start) and b'"ph"' in start[:4096]:
        return TraceError(
            "E_NO_EVENTS",
            path,
            "JSON-lines: one event per line, without a list around them",
            offset=0,
            hint="wrap them: `jq -s . FILE > trace.json`",
        )
    if b'"nodes"' in start and b'"schema"' in start:
        return TraceError(
            _WRONG,
            path,
            "a PyTorch execution trace, not a profiler trace",
            offset=0,
            hint="record with torch.profiler.profile",
        )
    if not whole:
        return TraceError(
            "E_NO_EVENTS",
            path,
            "the file was cut in the header, before its first event",
            offset=len(start),
            hint="record again; nothing can be saved from this file",
        )
    return TraceError(
        "E_NO_EVENTS",
        path,
        "holds no list `traceEvents`",
        offset=0,
        hint="give a Chrome-trace JSON file as torch.profiler writes it",
    )
