"""Freeze what every command answers, and show what a change of the code did to the answers.

    python tools/answers.py write build/before            # every answer of this checkout
    python tools/answers.py write build/before --at REV   # the same of another revision
    python tools/answers.py diff build/before build/after # what differs, command by command
    python tools/answers.py diff build/before build/after --show 'look/.*' --lines 40
    python tools/answers.py write tests/frozen --frozen    # those of the tests: make freeze

An answer is the exit code, stdout and stderr of one command on one recording: those that ship,
those of the tests, and what FORETRACE_SHARED (../shared) holds beside the checkout. Its name stays
the same when a command is renamed, so that a rename shows as a difference of the text alone.
`--replace OLD=NEW` applies to both sides, which proves that a rename is all that changed.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import gzip
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("FORETRACE_SHARED", ROOT.parent / "shared"))
SETTINGS = {"COLUMNS": "80", "NO_COLOR": "1"}
OUT = "{out}"  # a folder for files that a command writes; they are part of the answer
PREDICTIONS = (
    "kernels <= 5",
    "gpu.idle < 10%",
    "memcpys == 0",
    "total.kernels > 3",
    "share(gemm) > 40%",
    "dtype(gemm) == bf16",
    "fused(gelu, mul)",
    "waits == 0",
    "bound == host",
    "step.time < 8 ms and not gpu.busy > 90%",
)
# a scope, a selector and a comparison of each kind, and what a wrong word is answered with
MANUAL = (
    "in mlp_fwd: kernels == 5",
    "in step 2: time(gemm) / gpu.time > 40%",
    "in aten::linear: count(gemm) == 1",
    "in backward: kernels == 0",
    "total.count(gemm bf16) == 9",
    "max(time(gemm)) < 100 us",
    "each(flops(gemm)) == 38.65 GFLOP",
    "each(time(gemm)) ~ 54 us (± 15%)",
    "bytes(pointwise) == 252 MB",
    "rate(gemm) > 500 TFLOP/s",
    "launches(aten::t) == 0",
    "calls(aten::mm) == 3",
    "preceded(gemm, memset) == 2",
    "under(gemm, aten::linear, aten::mm)",
    "order(gate, gelu, up, mul, down)",
    "layout(gemm) == tn",
    "some(tile(gemm)) == 256x128",
    "dtype(*) in (bf16, fp32)",
    "epilogue(gemm, gelu)",
    "name(first gemm) == name(second gemm)",
    'shapes(aten::gelu) == "64x128x3072"',
    "gap.cause == launch",
    "idle.launch < 20%",
    "mfu > 20% or mbu > 20%",
    "limited(gemm) == compute",
    "peak < 6 GB",
    "graph_breaks == 0 and recompiles == 0",
    "separated(matmul, gelu) == extern",
    "after(compile).step < 240 us",
    "speedup(compile) > 1.1",
    "same(gemm, footprint)",
    "b.gpu.time < 0.9 * a.gpu.time",
    "a.kernels - b.kernels == 1",
    "gpu.bsy > 90%",
    "in mpl_fwd: kernels == 5",
    "everything runs in bf16",
)
BEFORE = "src/foretrace/read/recordings/h200/mlp_compiled.json.gz"
# name of the answer: what to type on one trace
TRACE = {
    "look": ["look", "{t}"],
    "look-all": ["look", "{t}", "--all"],
    "look-json": ["look", "{t}", "--json"],
    "fixes": ["look", "{t}", "--fixes"],
    "expect": ["check", "{t}"],
    "check": ["check", "{t}", "--all", *PREDICTIONS],
    "export": ["export", "{t}", "--to", "csv"],
}
SHIPPED_TRACE = {
    "look-markdown": ["look", "{t}", "--markdown"],
    "fixes-json": ["look", "{t}", "--fixes", "--json"],
    "expect-json": ["check", "{t}", "--json"],
    "check-json": ["check", "{t}", "--json", *PREDICTIONS],
    "predictions": ["check", "{t}", "--against", BEFORE, "--all", *MANUAL],
    "predictions-json": ["check", "{t}", "--against", BEFORE, "--json", *MANUAL],
    "collapsed": ["export", "{t}", "--to", "collapsed"],
    "speedscope": ["export", "{t}", "--to", "speedscope"],
    "perfetto": [
        *("export", "{t}", "--to", "perfetto", "--annotated"),
        *("-o", f"{OUT}/copy.json", "--no-browser"),
    ],
    "report": ["report", "{t}", "-o", f"{OUT}/report.html"],
}
PAIR = {
    "compare": ["compare", "{a}", "{b}"],
    "compare-all": ["compare", "{a}", "{b}", "--all"],
    "compare-json": ["compare", "{a}", "{b}", "--json"],
}
WHY = {
    "why": ["why", "{t}"],
    "why-all": ["why", "{t}", "--all"],
    "why-json": ["why", "{t}", "--json"],
    "why-page": ["why", "{t}", "--html", f"{OUT}/why.html"],
}
MEMORY = {
    "memory": ["memory", "{t}"],
    "memory-top": ["memory", "{t}", "--top", "40"],
    "memory-json": ["memory", "{t}", "--json"],
    "memory-page": ["memory", "{t}", "--html", f"{OUT}/memory.html"],
}
JOB = {
    "job": ["job", "{t}"],
    "job-all": ["job", "{t}", "--all"],
    "job-json": ["job", "{t}", "--json"],
    "job-page": ["job", "{t}", "--html", f"{OUT}/job.html"],
    "job-perfetto": ["job", "{t}", "--perfetto", f"{OUT}/job.json"],
    "look-set": ["look", "{t}"],
}
ONCE = {
    "roofs": ["lab", "roofs", "--show", "h200", "--all"],
    "roofs-json": ["lab", "roofs", "--show", "h200", "--json"],
    "gemms-near": ["lab", "gemms", "8192x3072x768"],
    "gemms-near-json": ["lab", "gemms", "4000x700x900", "--json"],
    "shapes": ["lab", "shapes", "mlp", "--recorded", "h200", "--all"],
    "recordings": ["look", "--list"],
    "recordings-word": ["look", "--list", "attention"],
    "explain-list": ["explain"],
    "ladder-claims": ["lab", "ladder", "--recorded", "h200"],
    "history": ["history", "tests/recorded/pages/history/runs", "--all"],
    "history-json": ["history", "tests/recorded/pages/history/runs", "--json"],
    "try": ["look", "tried"],
    "tried": ["look", "tests/recorded/pages/how-to-loader/tried.json", "--all"],
    "schemas": ["docs", "schema"],
}

# What tests/frozen holds, and tests/test_frozen.py compares: names of commands, then of recordings.
# OLD=NEW is a pair of recordings. Those of a job are simulated, as tests/jobs/plan says.
FROZEN = (
    (
        "look-all look-json fixes-json",
        """
        attention_by_hand_float32_softmax attention_causal_gqa_flash copies_pageable
        graph_capture_in_steps h200-ladder-block_compiled_8x1024x768x12x3072_backward_bf16
        h200-ladder-model_gemma_4x512x4x768x12x3072x32000_bf16 h200-llama_train_eager
        h200-matmul_add_4096_compiled h200-mlp_eager h200-mlp_liger h200-why-mlp_why
        hf_llama_causal_compiled hf_llama_causal_eager linear_float32 linear_relu_compiled
        llama_decode_cuda_graph llama_decode_eager masked_fill_and_mul
        pages-how-to-github-traces-bench pages-how-to-lightning-traces-lightning_fit
        pages-how-to-loader-traces-slow_loader pages-how-to-loader-traces-slow_loader_2
        steps_drift_growing_cache streams_copies_waits streams_wait_for_each_other
        streams_host_bound train_grads_kept triage_dispatch_eager triage_large_kernel_eager
        """,
    ),
    (
        "fixes",
        """
        h200-mlp_eager hf_llama_causal_eager llama_decode_eager pages-how-to-github-traces-bench
        pages-how-to-loader-traces-slow_loader streams_copies_waits triage_large_kernel_eager
        """,
    ),
    ("look look-markdown expect", "h200-mlp_eager hf_llama_causal_eager"),
    (
        "check",
        "h200-mlp_eager copies_pageable llama_decode_cuda_graph pages-how-to-github-traces-bench",
    ),
    ("predictions predictions-json", "h200-mlp_eager h200-why-mlp_why"),
    ("report", "h200-mlp_eager h200-why-mlp_why"),
    ("collapsed speedscope", "h200-mlp_eager"),
    (
        "compare-all compare-json",
        """
        attention_by_hand_repaired=attention_by_hand_repaired h200-mlp_eager=h200-mlp_compiled
        h200-mlp_eager=h200-mlp_liger copies_pageable=copies_pinned
        fusing_rms_eager=fusing_rms_compiled llama_causal_eager=llama_causal_compiled
        llama_decode_eager=llama_decode_cuda_graph sgd_foreach=sgd_fused
        streams_never_overlap=streams_overlap
        pages-how-to-loader-traces-slow_loader=pages-how-to-loader-traces-slow_loader_2
        """,
    ),
    ("compare", "h200-mlp_eager=h200-mlp_compiled"),
    (
        "why-all why-json",
        """
        h200-why-mlp_max_autotune h200-why-mlp_packed_why h200-why-mlp_reduce_overhead
        h200-why-mlp_why
        """,
    ),
    (
        "memory-top memory-json",
        """
        h200-memory-gpt_leak h200-memory-gpt_logits memory-ckpt_gpt memory-fused_adam_gpt
        memory-graphed memory-oom memory-ragged memory-train
        """,
    ),
    ("memory-page", "memory-oom"),
    ("job-all job-json", "job-balanced job-slow_rank job-slow_link job-pipeline"),
    ("job-page job-perfetto look-set", "job-slow_rank"),
    ("history history-json roofs tried", "once"),
)

PACKED = {"report", "memory-page", "job-page", "job-perfetto", "speedscope"}


def short(path: Path) -> str:
    """A name that stays: below the folder of recordings, the tests' or the shared one."""
    for folder in (ROOT / "src/foretrace/read/recordings", ROOT / "tests/recorded", SHARED):
        if path.is_relative_to(folder):
            return str(path.relative_to(folder)).replace("/", "-").split(".json")[0]
    return path.name


def answers(only: str) -> Iterator[list[tuple[str, list[str]]]]:
    """The commands by name, those of one recording together."""
    shipped = ROOT / "src/foretrace/read/recordings/h200"
    own = [path for path in sorted(shipped.rglob("*.json.gz")) if ".why" not in str(path)]
    tests = sorted((ROOT / "tests/recorded").glob("*.json.gz"))
    public = sorted((SHARED / "traces/public").rglob("*.json.gz"))
    public += sorted((SHARED / "traces").glob("[ghm]*/*.json.gz"))
    public += sorted((SHARED / "traces/public").rglob("*.sqlite.gz"))
    faults = sorted((SHARED / "faults").glob("*.json.gz"))
    logs = sorted((SHARED / "traces/compile").glob("*")) + sorted(
        path for path in (SHARED / "traces/public/torch_trace").glob("*") if path.is_file()
    )
    ranks = SHARED / "traces/public"
    groups: list[tuple[dict[str, list[str]], dict[str, object]]] = []
    groups += [(TRACE | SHIPPED_TRACE, {"t": path}) for path in own]
    groups += [(TRACE, {"t": path}) for path in [*public, *tests, *faults]]
    groups += [(WHY, {"t": path}) for path in [*sorted((shipped / "why").glob("*.json.gz")), *logs]]
    snapshots = [
        *(shipped / "memory").glob("*.pickle.xz"),
        *(SHARED / "traces/memory").glob("*.pickle"),
    ]
    groups += [(MEMORY, {"t": path}) for path in sorted(snapshots)]
    groups += [(JOB, {"t": ranks / "more/{v100_dlrm}"}), (JOB, {"t": ranks / "{ranks}"})]
    for bad in sorted((SHARED / "faults").glob("*_bad.json.gz")):
        groups.append((PAIR, {"t": bad, "a": bad, "b": Path(str(bad).replace("_bad", "_good"))}))
    for eager in sorted((shipped / "ladder").glob("*_eager_*.json.gz")):
        for other in sorted((shipped / "ladder").glob(eager.name.replace("_eager_", "_*_"))):
            groups.append((PAIR, {"t": other, "a": eager, "b": other}))
    one = {f"explain-{name}": ["explain", name] for name in names("rules", "fixes")}
    groups.append((one, {}))
    kernels = (
        (SHARED / "reference/kernel-names.jsonl").read_text().splitlines()
        if SHARED.is_dir()
        else []
    )
    every = [json.loads(line)["name"] for line in kernels]
    named = [(f"name-{at:04}", ["explain", text]) for at, text in enumerate(every)]
    groups += [(dict(named[at : at + 200]), {}) for at in range(0, len(named), 200)]
    groups.append((ONCE, {}))
    for commands, given in groups:
        label = short(given["t"]) if "t" in given else "once"  # type: ignore[arg-type]
        found = [
            (f"{name}/{label}", [filled(word, given) for word in words])
            for name, words in commands.items()
            if re.match(only, f"{name}/{label}")
        ]
        if found:
            yield found


def frozen() -> dict[str, dict[str, list[str]]]:
    """Of every recording of `FROZEN`: the words of its commands by the name of the answer."""
    tables = TRACE | SHIPPED_TRACE | PAIR | WHY | MEMORY | JOB | ONCE
    folders = ROOT / "src/foretrace/read/recordings", ROOT / "tests/recorded"
    paths = {
        short(path).removesuffix(".pickle.xz"): path.relative_to(ROOT)
        for folder in folders
        for path in folder.rglob("*")
        if path.name.endswith((".json.gz", ".pickle.xz"))
    }
    found: dict[str, dict[str, list[str]]] = {}
    for commands, labels in FROZEN:
        for label in labels.split():
            sides = [paths.get(side, label) for side in label.split("=")]
            given: dict[str, object] = {"t": sides[0], "a": sides[0], "b": sides[-1]}
            for name in commands.split():
                words = [filled(word, given) for word in tables[name]]
                found.setdefault(label, {})[f"{name}/{label}"] = words
    return found


def frozen_answers(label: str) -> Iterator[tuple[str, str]]:
    """The answers about one recording: the same on every machine, and in every version."""
    from foretrace import __version__

    with tempfile.TemporaryDirectory() as made:
        if label.startswith("job-"):
            simulate(Path(made, label))
        for name, words in frozen()[label].items():
            text = answer(words, Path(made) if label.startswith("job-") else ROOT)
            yield name, text.replace(made, "MADE").replace(__version__, "VERSION")


def frozen_file(folder: Path, name: str) -> Path:
    """Where an answer is: screens as they are, what programs read packed."""
    screen = name.partition("/")[0] not in PACKED and "-json/" not in name
    return folder / f"{name}{'.txt' if screen else '.gz'}"


def frozen_text(folder: Path, name: str) -> str:
    """The answer as it was frozen; empty where there is none."""
    path = frozen_file(folder, name)
    if not path.exists():
        return ""
    stored = path.read_bytes()
    return (gzip.decompress(stored) if path.suffix == ".gz" else stored).decode()


def simulate(folder: Path) -> None:
    """Write the ranks of a job of `FROZEN`, whose name is that of the folder."""
    from jobs.plan import Clock, Delay, Plan, write

    plans = {
        "job-balanced": Plan(data=4, host_noise_ns=20_000, kernel_noise_ns=5_000),
        "job-slow_rank": Plan(
            data=4,
            ranks_per_host=2,
            delays=(Delay("compute", 900_000, ranks=(2,)),),
            clocks={1: Clock(250_000)},
        ),
        "job-slow_link": Plan(data=4, tensor=2, ranks_per_host=4, slow_hosts={1: 20.0}),
        "job-pipeline": Plan(data=2, pipeline=2, microbatches=4, sharded=True),
    }
    write(plans[folder.name], folder)


def filled(word: str, given: dict[str, object]) -> str:
    """A word of a command with the paths of its recordings; kernel names hold braces too."""
    return re.sub(r"\{([tab])\}", lambda letter: str(given.get(letter[1], letter[0])), word)


def names(*rooms: str) -> list[str]:
    """Every rule and fix has the name of its file."""
    found = [
        path for room in rooms for path in (ROOT / "src/foretrace/analyze" / room).glob("[a-z]*.py")
    ]
    return sorted(path.stem for path in found)


def ranks_of(path: str, place: Path) -> str:
    """`FOLDER/{NAME}` means a folder that holds links to the traces of that name."""
    if not (match := re.fullmatch(r"(.*)/\{(\w+)\}", path)):
        return path
    folder = place / match[2]
    folder.mkdir(exist_ok=True)
    for trace in Path(match[1]).glob(f"{match[2]}_*.json.gz"):
        with contextlib.suppress(FileExistsError):
            (folder / trace.name).symlink_to(trace)
    return str(folder)


def run(work: tuple[list[tuple[str, list[str]]], str]) -> int:
    """Run the commands of one recording in this process, and write their answers."""
    commands, folder = work
    for name, words in commands:
        place = Path(folder) / name
        above = str(place.parents[len(Path(name).parts)])
        text = answer([ranks_of(word, Path(above)) for word in words], ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.replace(str(SHARED), "SHARED").replace(above, "FOLDER"))
    return len(commands)


def answer(words: list[str], place: Path) -> str:
    """The exit code, stdout, stderr and written files of one command, run in this process."""
    from foretrace.base.errors import _said
    from foretrace.cli import main

    with tempfile.TemporaryDirectory() as out, contextlib.chdir(place):
        _said = set()
        said, warned = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(warned):
            try:
                code: object = main([word.replace(OUT, out) for word in words])
            except SystemExit as leaving:
                code = leaving.code
        said.flush()
        printed = said.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]
        parts = [f"exit {code}", printed, warned.getvalue()]
        for path in sorted(Path(out).rglob("*")):
            parts += [f"--- {path.name}", page_data(path.read_text("utf-8", "replace"))]
        return "\n".join(parts).replace(out, "OUT").replace(str(ROOT), "ROOT")


def page_data(text: str) -> str:
    """Of an HTML page what is data: its scripts and styles come from web/, which has own tests."""
    if not text.lstrip()[:9].lower().startswith("<!doctype"):
        return text
    text = re.sub(r"<style.*?</style>", "", text, flags=re.S)
    text = re.sub(r"sha256-[\w+/]+=*", "sha256", text)
    return re.sub(r"<script(?![^>]*json)[^>]*>.*?</script>", "", text, flags=re.S)


def write(folder: Path, only: str, at: str) -> None:
    """All answers of this checkout, or of a revision with the runner that it has."""
    if at:
        with tempfile.TemporaryDirectory() as place:
            tree = f"{place}/tree"
            subprocess.run(
                ["git", "worktree", "add", "-q", "--detach", tree, at], cwd=ROOT, check=True
            )
            line = [
                sys.executable,
                "tools/answers.py",
                "write",
                str(folder.absolute()),
                "--only",
                only,
            ]
            env = {**os.environ, "FORETRACE_SHARED": str(SHARED)}
            try:
                subprocess.run(line, cwd=tree, env=env, check=True)
            finally:
                subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)
        return
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= SETTINGS | {"FORETRACE_CACHE": cache, "PYTHONPATH": str(ROOT / "src")}
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        sys.path.insert(0, str(ROOT / "src"))
        folder.mkdir(parents=True, exist_ok=True)
        todo = list(answers(only))
        done = 0
        work = [(commands, str(folder.absolute())) for commands in todo]
        with get_context("spawn").Pool(os.cpu_count(), maxtasksperchild=20) as pool:
            for count in pool.imap_unordered(run, work):
                done += count
                if sys.stderr.isatty():
                    print(f"\r{done} answers", end="", file=sys.stderr)
    print(f"{done} answers in {folder}")


def freeze(folder: Path, only: str) -> None:
    """Write the answers of `FROZEN` that are not as they were frozen, and name them."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
    names = [name for commands in frozen().values() for name in commands]
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= SETTINGS | {"FORETRACE_CACHE": cache}
        for label, commands in frozen().items():
            if not any(re.match(only, name) for name in commands):
                continue
            for name, text in frozen_answers(label):
                if text != frozen_text(folder, name):
                    path = frozen_file(folder, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    packed = path.suffix == ".gz"
                    path.write_bytes(
                        gzip.compress(text.encode(), mtime=0) if packed else text.encode()
                    )
                    print(path)
    wanted = {frozen_file(folder, name) for name in names}
    for path in folder.glob("*/*"):
        if path.suffix in (".txt", ".gz") and path not in wanted:
            path.unlink()
            print(path, "is gone")


def read(folder: Path) -> dict[str, str]:
    """Answers by name."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def diff(before: Path, after: Path, show: str, lines: int, replace: list[str]) -> int:
    """Count what differs by command, and show the lines of those that are named."""
    a, b = read(before), read(after)
    for each in replace:
        old, _, new = each.rpartition("=")
        a = {name: re.sub(old, new, text) for name, text in a.items()}
        b = {name: re.sub(old, new, text) for name, text in b.items()}
    changed = sorted(name for name in a.keys() & b.keys() if a[name] != b[name])
    for title, found in (
        ("changed", changed),
        ("gone", sorted(a.keys() - b.keys())),
        ("new", sorted(b.keys() - a.keys())),
    ):
        counts = Counter(name.partition("/")[0] for name in found)
        counts = Counter({re.sub(r"-\d{4}$", "", name): 0 for name in counts}) + counts
        print(
            f"{title}: {len(found)} of {len(a)}", *(f"{n} {c}" for n, c in counts.items()), sep="  "
        )
    kinds: Counter[tuple[str, ...]] = Counter()
    for name in changed:
        pieces = difflib.unified_diff(
            a[name].splitlines(), b[name].splitlines(), "before", "after", "", "", 0
        )
        different = [line for line in pieces if not line.startswith(("---", "+++", "@@"))]
        kinds[tuple(line[:160] for line in different[:2])] += 1
        if show and re.match(show, name):
            print(f"\n{name}", *(line[:400] for line in different[:lines]), sep="\n  ")
    for kind, count in kinds.most_common(15 if not show else 0):
        print(f"\n{count} begin:", *kind, sep="\n  ")
    return 1 if changed or a.keys() != b.keys() else 0


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    kinds = parser.add_subparsers(dest="what", required=True)
    writes = kinds.add_parser("write")
    writes.add_argument("folder", type=Path)
    writes.add_argument("--only", default="", help="a regular expression of names: look/llama")
    writes.add_argument("--at", default="", help="a revision of git")
    writes.add_argument("--frozen", action="store_true", help="those of the tests alone")
    compares = kinds.add_parser("diff")
    compares.add_argument("before", type=Path)
    compares.add_argument("after", type=Path)
    compares.add_argument("--show", default="")
    compares.add_argument("--lines", type=int, default=20)
    compares.add_argument("--replace", action="append", default=[], metavar="REGEX=TEXT")
    return parser.parse_args()


if __name__ == "__main__":
    given = parsed()
    if given.what == "write" and given.frozen:
        freeze(given.folder, given.only)
    elif given.what == "write":
        write(given.folder, given.only, given.at)
    else:
        sys.exit(diff(given.before, given.after, given.show, given.lines, given.replace))
