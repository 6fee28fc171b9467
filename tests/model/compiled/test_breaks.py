"""Graph breaks in the wordings of several versions of torch."""

from __future__ import annotations

import pytest

from foretrace.model.compiled.dynamo import BREAK_RECORD, graph_breaks, resume_name
from foretrace.schema.compiler import GraphBreak, SourceLine
from model.compiled.recorded import artifact, message, records_of, texts_of

PLANTED = GraphBreak(
    SourceLine("/home/user/scripts/record.py", 52, "f", "torch._dynamo.graph_break()"),
    "Call to `torch._dynamo.graph_break()`",
    "User-inserted graph break. Message: None",
    "Remove the `torch._dynamo.graph_break()` call.",
    "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0025.html",
)
# torch 2.6
SHORT = """Graph break in user code at /a/train.py:5
Reason: Unsupported: call_function BuiltinVariable(print) [] {}
User code traceback:
  File "/a/train.py", line 5, in f
    print(x)
"""
# torch 2.4
OLD = """Graph break: from user code at:
  File "/a/train.py", line 5, in f
    x = g(x)
Traceback (most recent call last):
  File "/lib/torch/_dynamo/symbolic_convert.py", line 462, in wrapper
    return inner_fn(self, inst)
torch._dynamo.exc.Unsupported: call torch._dynamo.disable() wrapped function g
"""
# torch 2.13
SKIPPED = """Graph break: torch.compile cannot properly resume from this graph break, which results in a skip.
torch.compile will skip tracing the frame f (train.py line 3) and fall back to eager.
The graph break occurred in the following user code:
  File "/a/train.py", line 5, in f
    with ctx():

Traceback (most recent call last):
  File "/lib/torch/_dynamo/convert_frame.py", line 9, in _compile
    raise
torch._dynamo.exc.Unsupported: Graph break under GenericContextWrappingVariable
  Explanation: Attempted to graph break in an active context manager
    that does not support it.
  Hint: Move the break out of it.
  Hint: Remove it.

  Developer debug context: Active manager: ctx
"""
REPEATED = """Graph break (user stack suppressed due to duplicate graph break) in user code at /a/t.py:7
Graph Break Reason: Data-dependent branching
  Explanation: if x.sum() > 0
"""


def test_the_planted_break_is_one_in_both_logs() -> None:
    records, texts = records_of("unfusable", "0/0"), texts_of("unfusable", "0/0")
    assert graph_breaks(records, ()) == graph_breaks((), texts) == (PLANTED,)
    assert graph_breaks(records, texts) == (PLANTED,)
    assert resume_name(PLANTED) == "torch_dynamo_resume_in_f_at_52"
    assert graph_breaks(records_of("mlp", "0/0"), texts_of("mlp", "0/0")) == ()


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        (SHORT, "call_function BuiltinVariable(print) [] {}", 5),
        (OLD, "call torch._dynamo.disable() wrapped function g", 5),
        (SKIPPED, "Graph break under GenericContextWrappingVariable", 5),
        (REPEATED, "Data-dependent branching", 7),
    ],
)
def test_wordings_of_other_versions(text: str, reason: str, line: int) -> None:
    (found,) = graph_breaks([artifact(BREAK_RECORD, text)], ())
    assert (found.reason, found.source.line) == (reason, line)
    assert (found,) == graph_breaks((), [message("graph_breaks", text)])


def test_a_break_that_dynamo_cannot_resume_from() -> None:
    (found,) = graph_breaks((), [message("graph_breaks", SKIPPED)])
    assert found.skipped
    assert found.hint == "Move the break out of it.\nRemove it."
    assert found.explanation.endswith("active context manager that does not support it.")


def test_two_messages_in_one_text() -> None:
    found = graph_breaks((), [message("graph_breaks", SHORT + REPEATED)])
    assert [each.source.file for each in found] == ["/a/train.py", "/a/t.py"]


@pytest.mark.parametrize("text", ["", "Graph break", "Graph break in user code at nowhere", "x"])
def test_a_message_without_a_place_is_no_break(text: str) -> None:
    assert graph_breaks((), [message("graph_breaks", text)]) == ()


def test_every_prefix_is_read() -> None:
    for text in (SHORT, OLD, SKIPPED, REPEATED):
        for end in range(len(text)):
            graph_breaks((), [message("graph_breaks", text[:end])])
