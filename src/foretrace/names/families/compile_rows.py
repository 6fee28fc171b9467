"""Rows that torch.compile adds to the host timeline. The field `role` says what for.

`TorchDynamo Cache Lookup`, `Torch-Compiled Region: <frame>/<compilation>`, `Pregraph bytecode`,
`AOTDispatcher Runtime Wrapper Prologue`, `CompiledFunction`, `## Call CompiledFxGraph <key> ##`.
They run on the CPU at every call of compiled code, in this order, and launch nothing themselves:
the kernels below them belong to the generated code.
"""

from __future__ import annotations

from foretrace.names.families._parser import KernelId, NameParser, family, row_for


def _decode(r: NameParser) -> KernelId | None:
    row = row_for("compile_rows", r.name)
    if not row:
        return None
    r.put(r.name, "op", "compile row", "a row of torch.compile on the CPU, not a kernel")
    r.put(r.name, "role", row[0], f"{{}}: {row[1]}")
    return r.done("other", f"torch.compile {row[0]}")


_FIRST = r"^(?:TorchDynamo |Torch-Compiled |Pregraph |AOTDispatcher |## Call |CompiledFunction)"
FAMILY = family("compile_rows", _decode, 8, "op role", "documented", hint=_FIRST)
