"""`foretrace remote --json`: what a run elsewhere sends, and what it brought back."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class SentFile(Struct, frozen=True):
    """One file that is sent, by its name there."""

    name: str
    bytes: int


class SentRequest(Struct, frozen=True):
    """The request that starts a job, as `huggingface_hub` builds it.

    The values of secrets are not in it: each one says where its value comes from.
    """

    method: str
    address: str
    body: dict[str, Any]


class RemoteDocument(Struct, frozen=True):
    """A run on another machine. `where` is `hub` for a Hugging Face Job, or the host of `--ssh`.

    `files` go to the folder `to`, and `commands` is what the other machine runs. `job` and `stage`
    are known once it was started, `brought` and `traces` (those of them that are traces) once it
    was fetched. `failed` when the script failed there or recorded nothing; `log` is then the end
    of what it printed. `usd_per_hour` is the Hub's own price; None where the Hub did not say it.
    """

    schema: int
    where: str
    run: str
    to: str
    files: list[SentFile]
    commands: list[str]
    request: SentRequest | None = None
    usd_per_hour: float | None = None
    job: str | None = None
    stage: str | None = None
    failed: bool = False
    log: list[str] = []
    brought: list[str] = []
    traces: list[str] = []
    notes: list[str] = []


DOCUMENTS = {"remote": RemoteDocument}
