"""A shared snapshot has the sizes and times of its source, and none of its secrets."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foretrace.cli import main
from foretrace.read.snapshot import from_tree, read_snapshot
from foretrace.schema.snapshot import Snapshot
from foretrace.show.share.pseudonyms import Pseudonyms
from foretrace.show.share.publish import INDEX, KEEP, share
from foretrace.show.share.snapshot_copy import write_snapshot
from foretrace.show.share.stores import Folder
from read.snapshots import RECORDED, small_tree
from show.share import secrets
from show.share.test_secrets import leaks

Plant = Callable[[dict[str, Any], str], None]


def frame(key: str, before: str = "", after: str = "") -> Plant:
    def plant(tree: dict[str, Any], text: str) -> None:
        event = {**tree["device_traces"][0][0]}
        event["frames"] = [
            {"name": "f", "filename": "a.py", "line": 3, key: f"{before}{text}{after}"}
        ]
        tree["device_traces"][0].append(event)

    return plant


def event(key: str) -> Plant:
    return lambda tree, text: tree["device_traces"][0].append(
        {**tree["device_traces"][0][0], key: text}
    )


def block(key: str) -> Plant:
    return lambda tree, text: tree["segments"][0]["blocks"].append({"size": 8, key: text})


def own(at: int) -> Plant:
    def plant(tree: dict[str, Any], text: str) -> None:
        owner = [1 << 40, 8, "parameter", "weight", "float"]
        owner[at] = text
        tree.setdefault("foretrace", {"owners": []})["owners"].append(owner)

    return plant


def card(tree: dict[str, Any], text: str) -> None:
    tree["foretrace"] = {"card": f"NVIDIA {tree.get('foretrace', {}).get('card', '')} {text}"}


PLACES: dict[str, Plant] = {
    "a function": frame("name"),
    "a function of C++": frame("name", "at::native::", "(at::Tensor const&)"),
    "a file": frame("filename"),
    "a file of a user": frame("filename", "/home/", "/model.py"),
    "a file of a package": frame("filename", "/x/lib/python3.12/site-packages/", "/a.py"),
    "a file of torch": frame("filename", "/x/site-packages/torch/", ".py"),
    "a file of C++": frame("filename", "", ".cpp"),
    "a line": frame("line"),
    "an action": event("action"),
    "a compile context": event("compile_context"),
    "metadata of the user": event("user_metadata"),
    "a key of an event": lambda tree, text: tree["device_traces"][0][0].update({text: 1}),
    "a state": block("state"),
    "a type of segment": lambda tree, text: tree["segments"][0].update(segment_type=text),
    "a setting": lambda tree, text: tree["allocator_settings"].update({f"a{text}": 1, "b": text}),
    "the settings": lambda tree, text: tree["allocator_settings"].update(
        PYTORCH_CUDA_ALLOC_CONF=tree["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"] + text
    ),
    "an annotation": lambda tree, text: tree["external_annotations"].append(
        {"stage": "START", "name": text, "device": 0, "time_us": 5}
    ),
    "a stage": lambda tree, text: tree["external_annotations"].append(
        {"stage": text, "name": "a", "device": 0, "time_us": 5}
    ),
    "a tensor's kind": own(2),
    "a tensor's name": own(3),
    "a tensor's type": own(4),
    "the card": card,
    "a part of its own": lambda tree, text: tree.update({text: text}),
}


def copied(snapshot: Snapshot, folder: Path, keep: frozenset[str] = frozenset()) -> str:
    private = Pseudonyms(secrets.NAMES, keep)
    path = write_snapshot(snapshot, folder / "copy.pickle", private)
    pickle.loads(path.read_bytes())
    return path.read_bytes().decode("latin-1")


def planted(place: str, forms: tuple[secrets.Form, ...]) -> Snapshot:
    tree = small_tree(2)
    for form in forms:
        PLACES[place](tree, form.text)
    return from_tree("tree", tree)


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_gets_out_of(place: str, tmp_path: Path) -> None:
    assert leaks(copied(planted(place, secrets.FORMS), tmp_path), secrets.FORMS) == []


@pytest.mark.parametrize("place", PLACES)
def test_a_key_goes_whatever_is_kept(place: str, tmp_path: Path) -> None:
    shown = copied(planted(place, secrets.KEYS), tmp_path, frozenset(KEEP))
    assert leaks(shown, secrets.KEYS) == []


@pytest.mark.parametrize("name", ["train", "inference", "oom"])
def test_the_copy_has_the_same_sizes_and_times(name: str, tmp_path: Path) -> None:
    source = read_snapshot(str(RECORDED / f"{name}.pickle.xz"))
    copied(source, tmp_path)
    copy = read_snapshot(str(tmp_path / "copy.pickle"))
    assert not copy.lost
    for one, other in zip(source.histories, copy.histories, strict=True):
        for column in ("action", "addr", "size", "time_us", "stream"):
            assert (getattr(one, column) == getattr(other, column)).all()
        depth = [
            [len(found.stacks[at]) for at in each.stack]
            for found, each in ((source, one), (copy, other))
        ]
        assert depth[0] == depth[1]
    blocks = [
        [
            (s.addr, s.size, s.stream, b.addr, b.size, b.requested, b.state)
            for s in found.segments
            for b in s.blocks
        ]
        for found in (source, copy)
    ]
    assert blocks[0] == blocks[1]
    assert [mark.time_us for mark in copy.marks] == [mark.time_us for mark in source.marks]


def test_the_memory_command_says_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = RECORDED / "train.pickle.xz"
    (each,) = share(str(source), Folder(tmp_path))
    answers = []
    for path in (source, tmp_path / each.trace):
        assert main(["memory", str(path), "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    for key in ("allocations", "steps", "peak_bytes", "peak_ns", "peak_pass"):
        assert answers[0]["device"][key] == answers[1]["device"][key]


def test_a_second_run_sends_nothing_and_the_index_lists_it(tmp_path: Path) -> None:
    source = str(RECORDED / "oom.pickle.xz")
    first, second = (share(source, Folder(tmp_path))[0] for _ in range(2))
    assert (first.was_there, second.was_there, first.report) == (False, True, "")
    assert first.trace == second.trace
    assert f'<a href="{first.trace}">snapshot</a>' in (tmp_path / INDEX).read_text()
