"""What the run record says about the machine, and what it must not say."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from foretrace.record.profiling import run_record  # noqa: E402
from foretrace.record.profiling.run_record import RunRecord  # noqa: E402
from pages.export import secrets  # noqa: E402

pytestmark = pytest.mark.torch


def test_nvidia_smi_is_read_by_name_and_unknowns_are_none() -> None:
    text = "580.159.04, 1980, 3201, 1980, 41, 122.53, P0\n570.1, 0, 0, 0, 0, 0, P8\n"
    assert run_record.parse_smi(text) == {
        "driver": "580.159.04",
        "sm_mhz": 1980,
        "memory_mhz": 3201,
        "sm_max_mhz": 1980,
        "temperature_c": 41,
        "power_w": 122.53,
        "pstate": "P0",
    }
    assert run_record.parse_smi("1.2, [N/A], [Not Supported]")["sm_mhz"] is None
    assert run_record.parse_smi("") == {}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["x.py", "--batch", "4"], ["x.py", "--batch", "4"]),
        (["x.py", "--hf-token", "abc", "--lr", "1"], ["x.py", "--hf-token", "***", "--lr", "1"]),
        (["x.py", "--api_key=abc", "y"], ["x.py", "--api_key=***", "y"]),
        (["x.py", "secret"], ["x.py", "secret"]),
        (["x.py", "--password", "two words"], ["x.py", "--password", "***"]),
        (["x.py", "https://bob:hunter2@host/x"], ["x.py", "https://***@host/x"]),
        (["x.py", "hf_" + "a1B2" * 8, "4"], ["x.py", "***", "4"]),
        (["x.py", "run_" + "9f3c" * 10], ["x.py", "run_***"]),
        (["x.py", "DB_PASSWORD=hunter2"], ["x.py", "DB_PASSWORD=***"]),
        (["x.py", "--token-count", "4"], ["x.py", "--token-count", "4"]),
        (
            ["x.py", "--tokens=4096", "--key-dim", "64"],
            ["x.py", "--tokens=4096", "--key-dim", "64"],
        ),
        (["x.py", "s3://bucket/run", "/data/a b"], ["x.py", "s3://bucket/run", "/data/a b"]),
    ],
)
def test_secrets_of_the_command_line_are_left_out(
    given: list[str], kept: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run record kept positional tokens and URLs with passwords."""
    monkeypatch.setattr(sys, "argv", given)
    assert run_record.command_line() == kept


@pytest.mark.parametrize("form", secrets.KEYS, ids=lambda form: form.name)
def test_no_text_of_a_run_record_keeps_a_secret(
    form: secrets.Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["x.py", form.text, f"--note={form.text}"])
    monkeypatch.setenv("TORCH_LOGS", form.text)
    record = RunRecord({}, facts={"script": {form.text: [form.text]}})
    record.error, record.note = f"RuntimeError: {form.text}", form.text
    stored = record.write(tmp_path / "run.json").read_text()
    assert not [needle for needle in form.needles if needle in stored]


@pytest.mark.parametrize(
    ("module", "kept"),
    [("foretrace.__main__", ["foretrace"]), ("somebody.train", ["python", "-m", "somebody.train"])],
)
def test_a_module_is_named_as_it_was_started(
    module: str, kept: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = f"/somewhere/site-packages/{module.replace('.', '/')}.py"
    monkeypatch.setattr(
        sys.modules["__main__"], "__spec__", SimpleNamespace(name=module, origin=file)
    )
    monkeypatch.setattr(sys, "argv", [file, "--lr", "1"])
    assert run_record.command_line() == [*kept, "--lr", "1"]


def test_a_program_of_the_installation_is_named_without_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", [f"{sys.prefix}/bin/foretrace", "run", "mlp"])
    assert run_record.command_line() == ["foretrace", "run", "mlp"]


def test_only_variables_that_change_the_run_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/home/somebody")
    monkeypatch.setenv("HF_TOKEN", "abc")
    stored = run_record.environment()["variables"]
    assert stored["TORCHINDUCTOR_MAX_AUTOTUNE"] == "1"
    assert not {"TORCHINDUCTOR_CACHE_DIR", "HF_TOKEN", "HOME"} & set(stored)


def test_the_versions_are_those_that_run() -> None:
    said = run_record.environment()
    assert said["torch"]["version"] == torch.__version__
    assert said["settings"]["threads"] == torch.get_num_threads()
    assert run_record.version_of("no-such-package", "click") is not None
    assert run_record.version_of("no-such-package") is None
