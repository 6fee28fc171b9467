"""AMD's Composable Kernel and CK Tile. The kernel's identifier, mostly mangled, tells the op."""

from __future__ import annotations

from foretrace.names.families import _cpp, _words
from foretrace.names.families._parser import KernelId, NameParser, family, row_for, rows, rx


def _decode(r: NameParser) -> KernelId:
    mangled = _cpp.is_mangled(r.name)
    words = _cpp.identifiers(r.name) if mangled else tuple(rx(r"\w+").findall(r.name))
    tile = "ck_tile" in words[:2]
    if tile:
        kernels = (word for word in words[2:] if row_for("ck_tile", word))
    else:
        kernels = (word for word in words if word.startswith("kernel_"))
    kernel = next(kernels, "")
    if mangled:
        r.put("_Z", "mangled", True, certainty="documented")
    lib = "CK Tile" if tile else "Composable Kernel"
    r.put("ck_tile" if tile else "ck", "lib", lib, "AMD's kernel library", "documented")
    return _tile(r, kernel) if tile else _plain(r, kernel)


def _plain(r: NameParser, kernel: str) -> KernelId:
    r.read(kernel, "kernel", "the kernel")
    row = next((row for row in rows("composable_kernel") if rx(row[-1]).search(kernel)), None)
    if not row:
        return r.done(_words.role(kernel), "", kernel or "CK")
    role, op, short, _ = row
    r.put(kernel, "op", op, "from the kernel's name")
    kind = next((kind for kind in ("xdl", "wmma", "dl") if f"_{kind}" in kernel), "")
    return r.done(role, f"{short} (CK {kind})".replace(" )", ")"))


def _tile(r: NameParser, kernel: str) -> KernelId:
    row = row_for("ck_tile", kernel)
    if not row:
        return r.done("other", "CK Tile")
    role, op, short = row
    r.put(kernel, "op", op, "from the kernel's name")
    problem = next((word for word in _cpp.identifiers(r.name) if word.endswith("Problem")), "")
    r.put(problem, "dtype_in", _cpp.type_after(r.name, problem) if problem else None)
    return r.done(role, f"{short} {{dtype_in}}")


_HINT = r"^(?:_ZN2ck|_ZN7ck_tile|(?:void )?(?:std::\S{1,200} )?ck(?:_tile)?::)"
FAMILY = family("composable_kernel", _decode, 20, "op lib kernel mangled", hint=_HINT)
