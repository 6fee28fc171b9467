"""`CompilerLog`: hears both logs of torch, prints nothing, and leaves no sign of itself."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch._logging import _internal, structured  # noqa: E402

from foretrace.record.profiling import compiler_records  # noqa: E402
from foretrace.record.profiling.compiler_records import CHANNELS, CompilerLog, KeptLog  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CompilerLog]:
    made = CompilerLog(tmp_path)
    made.start()
    yield made
    made.close()


@pytest.fixture
def users_logs() -> Iterator[None]:
    """Whatever a test sets, torch's logs are as they were."""
    yield
    torch._logging.set_logs()


def text_of(log: KeptLog) -> str:
    return b"".join(log.blocks()).decode()


def artifact(name: str, module: str = "torch._inductor.made_up") -> Any:
    return _internal.getArtifactLogger(module, name)


def state() -> tuple[Any, ...]:
    loggers = [logging.getLogger(name) for name in _internal.log_registry.get_artifact_log_qnames()]
    seen = {each.name: (each.level, each.propagate, tuple(each.handlers)) for each in loggers}
    functions = _internal.configure_artifact_log, _internal.LogState.is_artifact_enabled
    return seen, functions, tuple(_internal.trace_log.handlers), dict(os.environ)


def say(**record: Any) -> None:
    _internal.trace_structured(
        "artifact", lambda: {"name": "x", **record}, payload_fn=lambda: "a\nb"
    )


def test_both_logs_are_heard_and_nothing_is_printed(
    log: CompilerLog, capfd: pytest.CaptureFixture[str]
) -> None:
    say(number=1)
    artifact("fusion").debug("cannot fuse %s\nwith %s", "op0", "op1")
    artifact("graph").debug("not one of ours")
    assert '"number": 1' in text_of(log.structured)
    assert text_of(log.structured).endswith("\n\ta\n\tb\n")
    lines = text_of(log.text).splitlines()
    assert [line.partition("[__fusion] ")[2] for line in lines] == ["cannot fuse op0", "with op1"]
    assert capfd.readouterr() == ("", "")


def test_the_time_of_a_backward_counts(log: CompilerLog) -> None:
    for name, micros in (("compilation_metrics", 2e6), ("bwd_compilation_metrics", 1e6)):
        _internal.trace_structured(name, lambda micros=micros: {"duration_us": micros})
    assert log.structured.compile_s == 3


@pytest.mark.parametrize("channel", sorted(CHANNELS))
def test_a_logger_that_was_there_before_is_heard_and_put_back(
    channel: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logger = artifact(channel, f"torch._inductor.earlier_{channel}")
    before = state()
    log = CompilerLog(tmp_path)
    log.start()
    logger.debug("within")
    assert "within" in text_of(log.text)
    log.close()
    assert state() == before
    logger.debug("after")
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("users_logs")
def test_what_the_user_requested_before_is_still_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    torch._logging.set_logs(graph_breaks=True)
    log = CompilerLog(tmp_path)
    log.start()
    artifact("graph_breaks").debug("theirs and ours")
    artifact("fusion").debug("ours alone")
    assert "theirs and ours" in text_of(log.text)
    assert "ours alone" in text_of(log.text)
    log.close()
    artifact("graph_breaks").debug("theirs alone")
    shown = capfd.readouterr().err
    assert ("theirs and ours" in shown, "theirs alone" in shown, "ours alone" in shown) == (
        True,
        True,
        False,
    )


def test_dynamo_words_the_reasons_of_recompilations(log: CompilerLog) -> None:
    assert _internal.log_state.is_artifact_enabled("recompiles")
    assert not _internal.log_state.is_artifact_enabled("bytecode")


def test_names_of_files_that_have_a_number_already_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structured, "INTERN_TABLE", {"model.py": 0})
    log = CompilerLog(tmp_path)
    log.start()
    [line] = text_of(log.structured).splitlines()
    assert json.loads(line.partition("] ")[2]) == {"str": ["model.py", 0]}
    log.close()


def test_a_forked_process_writes_nothing(log: CompilerLog) -> None:
    child = os.fork()
    if child == 0:
        say(number=2)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    say(number=3)
    assert '"number": 2' not in text_of(log.structured)
    assert '"number": 3' in text_of(log.structured)


def test_a_full_disk_costs_records_and_nothing_else(
    log: CompilerLog, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    say(number=4)
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
        say(number=5)
    say(number=6)
    assert log.structured.lost == 1
    assert [number for number in (4, 5, 6) if f'"number": {number}' in text_of(log.structured)] == [
        4,
        6,
    ]
    assert capfd.readouterr() == ("", "")


def test_every_thread_has_the_settings_and_they_are_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch._inductor import config

    def values() -> tuple[Any, ...]:
        cache, level = config.fx_graph_cache, config.trace.provenance_tracking_level
        return cache, level, config.cpp.enable_kernel_profile

    monkeypatch.setenv("INDUCTOR_PROVENANCE", "0")
    before, seen = values(), list[Any]()
    with compiler_records.applied(compiler_records.for_records()):
        worker = threading.Thread(target=lambda: seen.append(values()))
        worker.start()
        worker.join()
        assert os.environ["INDUCTOR_PROVENANCE"] == "1"
    assert seen == [(False, 1, not torch.cuda.is_available())]
    assert values() == before
    assert os.environ["INDUCTOR_PROVENANCE"] == "0"


def test_a_value_that_the_program_sets_wins() -> None:
    from torch._inductor import config

    with (
        config.patch(fx_graph_cache=True),
        compiler_records.applied(compiler_records.for_records()),
    ):
        assert config.fx_graph_cache
