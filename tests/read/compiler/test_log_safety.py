"""Explaining a log runs, imports, opens and fetches nothing that the log names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from read.compiler.written import message, record
from read.test_safety import FORBIDDEN, WATCH

# text is parsed, which Python announces as compiling; nothing of it is executed
ALLOWED = ("compile",)
READ = """
def read(path, limits):
    from foretrace import why
    from foretrace.base.tables import encode
    try:
        encode(why.explain(why.load(path), None))
    except ForetraceError:
        pass

jobs = """
HOSTILE = "__import__('os').system('touch pwned')"
CODE = f"""# AOT ID: ['0_inference']
import os
{HOSTILE}
triton_poi_fused_0 = async_compile.triton('triton_poi_fused_0', '''
import subprocess; subprocess.run(['touch', 'pwned'])
def triton_poi_fused_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    {HOSTILE}
''', device_str='cuda')
def call(args):
    {HOSTILE}
    triton_poi_fused_0.run(arg0_1, buf0, {HOSTILE}, stream=stream0)
"""
GRAPH = f"""class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[{HOSTILE}]"):
         # File: /etc/passwd:1 in f, code: {HOSTILE}
        y: "f32[8]" = {HOSTILE};  return (y,)
"""


def hostile(folder: Path) -> None:
    common = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
    frames = [{"line": 1, "name": HOSTILE, "filename": 0, "loc": HOSTILE}]
    made = [
        record({"str": ["/etc/passwd", 0]}),
        record({"dynamo_start": {"stack": frames}, **common}),
        record({"dynamo_output_graph": {"sizes": {HOSTILE: [8]}}, **common}, GRAPH),
        record({"inductor_output_code": {"filename": "/etc/shadow"}, **common}, CODE),
        record({"dump_file": {"name": "../../pwned"}, **common}, HOSTILE),
        record({"link": {"name": "x", "url": "http://169.254.169.254/latest"}}),
    ]
    (folder / "torch_trace.log").write_bytes(b"".join(made))
    texts = message(f"cannot fuse op0 with op1: {HOSTILE}")
    texts += message(f"BEFORE FUSION\nop0: SchedulerNode({HOSTILE})", "[0/0] [__ir_pre_fusion] ")
    (folder / "torch_logs.txt").write_bytes(texts)
    about = {"kind": "foretrace-why", "trace": "/etc/passwd", "files": ["/etc/passwd", "../x"]}
    (folder / "manifest.json").write_text(json.dumps(about))


def test_a_log_names_much_and_nothing_of_it_is_touched(tmp_path: Path) -> None:
    folder = tmp_path / "run.why"
    folder.mkdir()
    hostile(folder)
    (tmp_path / "jobs.json").write_text(json.dumps([[os.fspath(folder), {}]]))
    begin = WATCH.index("def read(")
    script = WATCH[:begin] + READ.strip() + WATCH[WATCH.index(" json.load(open(sys.argv[1]))") :]
    kept = tuple(name for name in FORBIDDEN if name not in ALLOWED)
    command = [sys.executable, "-c", f"FORBIDDEN = {kept!r}\n{script}", str(tmp_path / "jobs.json")]
    ran = subprocess.run(command, capture_output=True, cwd=tmp_path, check=False)
    assert ran.returncode == 0, ran.stderr.decode()[-2000:]
    seen = [entry for entry in json.loads(ran.stdout)["seen"] if entry[0] != "case"]
    assert {what for _, what, _ in seen} - {"/proc/self/statm"} == {
        str(folder / name) for name in ("torch_trace.log", "torch_logs.txt", "manifest.json")
    }
    assert not any(event != "open" or writes for event, _, writes in seen)
    assert sorted(os.listdir(tmp_path)) == ["jobs.json", "run.why"]
