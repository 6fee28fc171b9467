"""Guards that failed, in the words of several versions of torch."""

from __future__ import annotations

import pytest

from foretrace.analyze.why.explained import tallies
from foretrace.model.compiled.dynamo import RECOMPILE_RECORD, guard_failures, limit_reached
from foretrace.schema.compiler import Compilation, GuardFailure, GuardTally
from model.compiled.recorded import artifact, message, records_of, texts_of

SIZE = "tensor 'x' size mismatch at index 0. expected 64, actual 32"


def test_the_recompilation_of_the_recorded_run() -> None:
    records, texts = records_of("recompiles", "0/1"), texts_of("recompiles", "0/1")
    wanted = (GuardFailure("0/0", SIZE, "x", "64", "32", "size at index 0"),)
    assert guard_failures(records, ()) == guard_failures((), texts) == wanted
    assert guard_failures(records, texts) == wanted
    assert guard_failures(records_of("recompiles", "0/0"), texts_of("recompiles", "0/0")) == ()


@pytest.mark.parametrize(
    ("text", "subject", "what", "expected", "actual"),
    [
        ("tensor 'x' stride mismatch at index 0. expected 32, actual 1",
         "x", "stride at index 0", "32", "1"),
        ("tensor 'L['x']' strides mismatch at index 0. expected 16, actual 8",
         "L['x']", "stride at index 0", "16", "8"),
        ("tensor 'x' rank mismatch. expected 2, actual 3", "x", "rank", "2", "3"),
        ("tensor 'x' dtype mismatch. expected Float, actual Half", "x", "dtype", "Float", "Half"),
        ("tensor 'x' requires_grad mismatch. expected requires_grad=1",
         "x", "requires_grad", "requires_grad=1", ""),
        ("tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, X), actual Y",
         "x", "dispatch key set", "DispatchKeySet(CPU, X)", "Y"),
        ("n == 3  # if n == 4:  # train.py:5 in f", "n", "value", "3", ""),
        ("___check_obj_id(fn, 140439264606080)", "fn", "object", "", ""),
        ("___check_type_id(L['x'], 94)", "L['x']", "type", "", ""),
        ("2 <= s77 and s77 == 4", "", "", "", ""),
        ("GLOBAL_STATE changed: grad_mode", "", "", "", ""),
    ],
)  # fmt: skip
def test_words_of_a_guard(text: str, subject: str, what: str, expected: str, actual: str) -> None:
    (found,) = guard_failures([artifact(RECOMPILE_RECORD, f"0/0: {text}")], ())
    assert found == GuardFailure("0/0", text, subject, expected, actual, what)


def test_several_versions_and_their_stacks() -> None:
    listed = f'["0/1: {SIZE}", "0/0: n == 3\\nUser stack trace:\\n  File"]'
    found = guard_failures([artifact(RECOMPILE_RECORD, listed)], ())
    written = (
        "Recompiling function f in t.py:3\n    triggered by the following guard failure(s):\n"
        f"    - 0/1: {SIZE}\n    - 0/0: n == 3\n    - User stack trace:\n    -   File"
    )
    assert guard_failures((), [message("recompiles", written)]) == found
    assert [each.version for each in found] == ["0/1", "0/0"]


def test_a_message_of_torch_2_3_names_no_version() -> None:
    (found,) = guard_failures((), [message("recompiles", f"    - {SIZE}")])
    assert (found.version, found.actual) == ("", "32")


def test_a_guard_is_counted_over_all_recompilations() -> None:
    first = guard_failures([artifact(RECOMPILE_RECORD, f"0/0: {SIZE}")], ())
    second = guard_failures(
        [artifact(RECOMPILE_RECORD, f'["0/1: {SIZE.replace("32", "8")}", "0/0: {SIZE}"]')], ()
    )
    runs = [Compilation("0/0"), Compilation("0/1", recompile=first)]
    assert tallies([*runs, Compilation("0/2", recompile=second)]) == (
        GuardTally("size at index 0", "x", ("0/1", "0/2"), ("64",), ("32", "8")),
    )


def test_the_limit_of_recompilations() -> None:
    told = "torch._dynamo hit config.recompile_limit (8)\n   function: 'f' (/a/train.py:3)"
    assert limit_reached([message("", told)]) == "recompile_limit (8)"
    assert limit_reached([message("", "something else")]) == ""
