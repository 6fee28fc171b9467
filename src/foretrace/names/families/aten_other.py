"""The rest of ATen: pooling, losses, sorting, scans, embedding gradients, resampling.

The function's name is the op. A kernel of `at::native` that no table knows keeps its function name;
its role comes from the words of that name.
"""

from __future__ import annotations

from foretrace.names.families import _cpp, _words
from foretrace.names.families._parser import KernelId, NameParser, family, rx

UNSCOPED = "compute_cuda_kernel"


def _decode(r: NameParser) -> KernelId | None:
    if "_ZN2at6native" in r.name[:20]:
        return _mangled_name(r)
    if not r.cpp.scope.startswith("at::native") and r.base != UNSCOPED:
        return None
    r.put(r.base, "template", r.base)
    # a bool among several types is a mask
    types = [r.arg(0)] if r.arg(0) == "bool" else [t for t in r.cpp.args if t != "bool"]
    dtype = r.read(next(filter(_cpp.dtype, types), ""), "dtype")
    row = r.row("aten_other")
    if not row:
        return r.done(_words.role(r.base), "", _words.plain(r.base), dtype)
    role, short, op = row
    op = op or _upsample(r.base) or _triangle(r.cpp)
    r.put(r.base, "op", op and f"aten::{op}", certainty="inferred")
    return r.done(role, short.replace("triu/tril", op or "triu/tril"))


def _triangle(cpp: _cpp.Cpp) -> str:
    """`triu_tril_kernel<T, index, upper, …>`."""
    upper = _cpp.boolean(cpp.arg(2)) if cpp.base == "triu_tril_kernel" else None
    return "" if upper is None else "triu" if upper else "tril"


def _upsample(function: str) -> str:
    found = rx(r"(upsample_[a-z]+\dd)(_backward)?\w*").fullmatch(function)
    return f"{found[1]}{found[2] or ''}" if found else ""


def _mangled_name(r: NameParser) -> KernelId | None:
    words = _cpp.identifiers(r.name)
    if words[:2] != ("at", "native") or len(words) < 3:
        return None
    r.put("_Z", "mangled", True)
    r.put(words[2], "template", words[2])
    role = "pointwise" if "elementwise" in words[2] else _words.role(words[2])
    return r.done(role, "", _words.plain(words[2]), *words[3:4])


_HINT = f"_ZN2at6native|at::native|{UNSCOPED}"
FAMILY = family("aten_other", _decode, 49, "op dtype", "documented", hint=_HINT)
