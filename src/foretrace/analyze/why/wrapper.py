"""The wrapper that Inductor wrote: its generated kernels, and its calls in their order.

The text is parsed, never run. `call` allocates buffers, runs generated kernels (`….run(…)`) and
calls libraries (`extern_kernels.mm(…)`, `torch.ops.…`). Comments above a call name the nodes behind
it and its provenance handle.
"""

from __future__ import annotations

import ast
import re

from foretrace.analyze.why import triton_code
from foretrace.analyze.why.buffers import declared
from foretrace.analyze.why.cpp_wrapper import cpp_calls
from foretrace.analyze.why.parsed import LARGEST, dotted, parse
from foretrace.analyze.why.wrapper_calls import Walk
from foretrace.schema.compiler import GeneratedKernel, KernelCall

_PATH = re.compile(r"# kernel path: (\S{1,1000})")
_LANGUAGES = {"triton": "triton", "cpp": "cpp", "cpp_pybinding": "cpp"}


def parse_wrapper(code: str) -> tuple[tuple[GeneratedKernel, ...], tuple[KernelCall, ...]]:
    """The kernels and calls of one wrapper; empty where the text is not understood."""
    module = parse(code)
    try:
        if module is None:
            return (), cpp_calls(code[:LARGEST], {})
        own = _kernels(module, code.splitlines())
        kernels = own or _tuned(module)
        known = {kernel.name: kernel for kernel in kernels}
        walk = Walk(module, code.splitlines(), known, declared(module))
        return kernels, walk.calls() or cpp_calls(_cpp(module), known)
    except RecursionError:  # an expression nested deeper than any compiler writes
        return (), ()


def _tuned(module: ast.Module) -> tuple[GeneratedKernel, ...]:
    """A wrapper in C++ begins with the Python text that tuned its kernels."""
    text = ast.get_docstring(module, clean=False) or ""
    inner = parse(text.partition("\n\n")[2])
    return _kernels(inner, text.partition("\n\n")[2].splitlines()) if inner else ()


def _cpp(module: ast.Module) -> str:
    """`cpp_wrapper_src` of a module."""
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                if name.startswith("cpp_wrapper_src"):
                    return text
    return ""


def _kernels(module: ast.Module, lines: list[str]) -> tuple[GeneratedKernel, ...]:
    found = []
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function) as call):
                made_by, _, kind = dotted(function).rpartition(".")
                texts = [each for each in call.args if isinstance(each, ast.Constant)]
                codes = [each.value for each in texts if isinstance(each.value, str)]
                if made_by == "async_compile" and codes:
                    found.append(_kernel(name, kind, codes[-1], _file(lines, node.lineno)))
    return tuple(found)


def _kernel(name: str, kind: str, code: str, file: str) -> GeneratedKernel:
    if kind == "triton":
        read = triton_code.read(code, name)
        return GeneratedKernel(name, "triton", code, read.config if read else {}, file)
    return GeneratedKernel(name, "cpp" if kind in _LANGUAGES else "other", code, {}, file)


def _file(lines: list[str], line: int) -> str:
    """`# kernel path: …` above a kernel."""
    for text in reversed(lines[max(line - 4000, 0) : line - 1]):
        if not text.startswith("#"):
            break
        found = _PATH.match(text)
        if found:
            return found[1]
    return ""
