"""Reading a trace runs, unpickles, opens and fetches nothing that the trace names.

One process reads traces of the corpus under an audit hook that writes down every attempt; the source of
the reader is searched for the calls that could do such a thing.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from corpus.build import E4, g0
from corpus.odd_files import ALL
from sweep import part

SOURCES = Path(__file__).resolve().parents[2] / "src" / "foretrace" / "read"

# What a reader has no business doing. `open` is looked at one by one: only the inputs may be
# opened.
_FORBIDDEN = """
socket. subprocess.Popen os.system os.exec os.posix_spawn os.spawn os.fork pty.spawn
pickle.find_class marshal.loads exec compile shutil. os.remove os.rename os.rmdir os.link
os.symlink os.chmod os.chown os.truncate urllib.Request http.client.connect ftplib.connect
ctypes.dlopen webbrowser.open sqlite3.connect
"""
FORBIDDEN = tuple(_FORBIDDEN.split())

WATCH = r"""
import json, os, sys
watching, seen = [False], []

def importing():
    frame = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None

def hook(event, args):
    if not watching[0] or not (event == "open" or event.startswith(FORBIDDEN)) or importing():
        return  # a module that is imported late is opened and unmarshalled, too
    if event == "open":
        path, mode, flags = args
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        shown = path if isinstance(path, (str, int)) else os.fsdecode(path)
        seen.append(["open", shown, bool(writes)])
    else:
        seen.append([event, repr(args)[:200], False])

sys.addaudithook(hook)
from foretrace.base.errors import ForetraceError
from foretrace.look import look
from foretrace.base.budget import Limits
import foretrace

def read(path, limits):
    try:
        look(foretrace.open(path, cache=False, limits=Limits(**limits) if limits else None))
    except ForetraceError:
        pass

jobs = json.load(open(sys.argv[1]))
read(*jobs[0])  # the first decoded name looks for installed extensions, once
watching[0] = True
for path, limits in jobs:
    seen.append(["case", path, False])
    read(path, limits)
watching[0] = False
loaded = {name: name in sys.modules for name in ("torch", "yaml")}
json.dump({"seen": seen} | loaded, sys.stdout)
"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], list[str], Path]:
    """Traces read in one process with the hook on: what it tried, what it was given, and where; the
    whole corpus in the deep sweep.
    """
    root = tmp_path_factory.mktemp("watched")
    jobs = []
    for case in part([case for case in ALL if not case.needs]):
        folder = root / case.id
        folder.mkdir()
        jobs.append((os.fspath(case.put(folder)), case.limits))
    pointing = root / "pointing.json"
    pointing.write_bytes(pointing_elsewhere())
    jobs.append((os.fspath(pointing), {}))
    (root / "jobs.json").write_text(json.dumps(jobs))
    script = f"FORBIDDEN = {FORBIDDEN!r}\n{WATCH}"
    command = [sys.executable, "-c", script, str(root / "jobs.json")]
    ran = subprocess.run(command, capture_output=True, cwd=root, check=False)
    assert ran.returncode == 0, ran.stderr.decode()[-2000:]
    return json.loads(ran.stdout), [path for path, _ in jobs], root


def pointing_elsewhere() -> bytes:
    """A trace full of names of other things: files, shares, addresses."""
    targets = {
        "kernel_file": "/etc/passwd",
        "Call stack": "file:///etc/passwd",
        "url": "http://169.254.169.254/latest",
        "share": "\\\\host\\share\\x",
        "module": "os",
        "annotation": "__import__('os').system('touch pwned')",
    }
    doc = g0().args(E4, targets).head(**targets)
    doc.tail["traceName"] = "/etc/passwd"
    return doc.bytes()


def events(watched: tuple[dict[str, object], list[str], Path]) -> list[tuple[str, str, bool]]:
    seen: list[tuple[str, str, bool]] = watched[0]["seen"]  # type: ignore[assignment]
    return [(event, what, writes) for event, what, writes in seen]


def test_nothing_is_run_fetched_or_unpickled(
    watched: tuple[dict[str, object], list[str], Path],
) -> None:
    assert [entry for entry in events(watched) if entry[0] not in ("open", "case")] == []


def test_only_the_inputs_are_opened(watched: tuple[dict[str, object], list[str], Path]) -> None:
    """A file is opened only to be read, and only if it or its folder was named.

    The run record beside a trace belongs to it.
    """
    _, given, root = watched
    allowed = {path.partition("::")[0] for path in given}
    beside = {os.path.dirname(path) for path in allowed}
    current, odd = "", []
    for event, what, writes in events(watched):
        if event == "case":
            current = what
        elif event == "open" and (writes or not (what in allowed or inside(what, given))):
            record = str(what).endswith(".run.json") and os.path.dirname(what) in beside
            odd += [] if record and not writes else [(current, what, writes)]
    assert odd == [], odd
    assert not (root / "pwned").exists()


def inside(what: str | int, given: list[str]) -> bool:
    """Whether a path lies in a wanted folder (`0` is standard input), leads nowhere, or says how
    much memory this process holds.
    """
    folders = [path + os.sep for path in given if os.path.isdir(path)]
    harmless = (os.devnull, "/proc/self/statm")
    return isinstance(what, int) or what in harmless or what.startswith(tuple(folders))


def test_reading_needs_neither_torch_nor_yaml(
    watched: tuple[dict[str, object], list[str], Path],
) -> None:
    assert watched[0]["torch"] is False
    assert watched[0]["yaml"] is False


_BANNED_MODULES = """
subprocess pickle marshal shelve yaml torch importlib runpy ctypes socket urllib http requests
code webbrowser
"""
BANNED_MODULES = frozenset(_BANNED_MODULES.split())
# a snapshot is unpickled without names, in a process of its own (tests/read/test_snapshot.py)
ALLOWED = {("unpickle.py", "pickle"), ("snapshot.py", "subprocess")}
BANNED_CALLS = {"eval", "exec", "compile", "__import__", "import_module", "system", "popen"}


def test_source_has_no_such_call() -> None:
    odd = []
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            odd += [(path, name) for name in names if name.partition(".")[0] in BANNED_MODULES]
            if isinstance(node, ast.Call) and ast.unparse(node.func) != "re.compile":
                called = ast.unparse(node.func)
                odd += [(path, called)] if called.rpartition(".")[2] in BANNED_CALLS else []
    assert [each for each in odd if (each[0].name, each[1]) not in ALLOWED] == []
