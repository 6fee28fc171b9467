"""Rows that torch.compile adds to the host timeline. The field `role` says what for.

`TorchDynamo Cache Lookup`, `Torch-Compiled Region: <frame>/<compilation>`, `Pregraph bytecode`,
`AOTDispatcher Runtime Wrapper Prologue`, `CompiledFunction`, `## Call CompiledFxGraph <key> ##`.
They run on the CPU at every call of compiled code, in this order, and launch nothing themselves:
the kernels below them belong to the generated code.
"""

from __future__ import annotations

from foretrace.names.families._parser import KernelId, NameParser, family, row_for

# what the row is for, its meaning, pattern of the whole name
ROWS = r"""
    guards  checks the guards of each compiled version of this code at every call, and picks one
        TorchDynamo\ Cache\ Lookup
    compiled region  one call of compiled code: frame, then compilation; above 0 it was recompiled
        Torch-Compiled\ Region:\ \d{1,6}/\d{1,6}(?:_\d{1,6})?
    bytecode  Python that Dynamo wrote to run before the graph  Pregraph\ bytecode
    prologue  prepares the inputs of the graph: views, aliases, copies of what it changes
        AOTDispatcher\ Runtime\ Wrapper\ Prologue
    generated code  runs Inductor's code; the same key in every step means that nothing recompiled
        \#\#\ Call\ CompiledFxGraph\ \w{1,99}\ \#\#
    autograd  the compiled forward with a backward of its own  CompiledFunction
    autograd backward  the compiled backward  CompiledFunctionBackward
"""


def _decode(r: NameParser) -> KernelId | None:
    row = row_for(ROWS, r.name)
    if not row:
        return None
    r.put(r.name, "op", "compile row", "a row of torch.compile on the CPU, not a kernel")
    r.put(r.name, "role", row[0], f"{{}}: {row[1]}")
    return r.done("other", f"torch.compile {row[0]}")


_FIRST = r"^(?:TorchDynamo |Torch-Compiled |Pregraph |AOTDispatcher |## Call |CompiledFunction)"
FAMILY = family("compile_rows", _decode, 8, "op role", "documented", hint=_FIRST)
