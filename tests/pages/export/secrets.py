"""Forms of secrets and the places of a trace where one can be.

All are made up by a fixed random number generator: none is written out, so no scanner of keys finds
one in this repository.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from typing import Any, NamedTuple

from corpus import build

_RANDOM = random.Random(19)
_LETTERS = string.ascii_letters + string.digits


def _of(alphabet: str, count: int) -> str:
    return "".join(_RANDOM.choices(alphabet, k=count))


def _any(count: int) -> str:
    return _of(_LETTERS, count)


def _hex(count: int) -> str:
    return _of("0123456789abcdef", count)


class Form(NamedTuple):
    """A text with a secret in it; nothing of `needles` may get out."""

    name: str
    text: str
    needles: tuple[str, ...]


def _key(name: str, before: str, key: str, after: str = "") -> Form:
    return Form(name, f"{before}{key}{after}", (key,))


def _password() -> str:
    return f"Xy{_any(3)}-{_any(4)}!"  # as short as people choose them


def _uuid() -> str:
    return "-".join(map(_hex, (8, 4, 4, 4, 12)))


_WHO = ("dora.vesely", "acme-moonshot")
_BASE64URL = _LETTERS + "-_"
# Known to be keys by their form or by what they are called: replaced even where paths are kept.
KEYS = (
    _key("Hugging Face", "hf_", _any(34)),
    _key("Hugging Face behind a word", "run_hf_", _any(34), "_v2"),
    _key("AWS key id", "AKIA", _of(string.ascii_uppercase + "234567", 16)),
    _key("AWS temporary key id", "job_ASIA", _of(string.ascii_uppercase + "234567", 16)),
    _key("AWS secret", "aws ", _of(_LETTERS + "/+", 40)),
    _key("40 hexadecimal digits", "wandb ", _hex(40)),
    _key("64 hexadecimal digits", "sha_", _hex(64)),
    _key("32 capital hexadecimal digits", "id", _hex(32).upper()),
    _key("GitHub", "ghp_", _any(36)),
    _key("GitHub server", "ci_ghs_", _any(36)),
    _key("GitHub OAuth", "gho_", _any(36)),
    _key("GitHub fine-grained", "github_pat_", f"{_any(22)}_{_any(59)}"),
    _key("GitLab", "glpat-", _of(_BASE64URL, 20)),
    _key("Stripe restricted", "rk_live_", _any(24)),
    _key("Stripe secret", "pay_sk_live_", _any(24)),
    _key("OpenAI", "sk-proj-", _of(_BASE64URL, 48)),
    _key("Anthropic", "sk-ant-api03-", _of(_BASE64URL, 48)),
    _key("Google", "AIza", _of(_BASE64URL, 35)),
    _key("Google OAuth", "ya29.", _of(_BASE64URL, 60)),
    _key("Slack bot", "xoxb-", f"{_of('123456789', 12)}-{_any(24)}"),
    _key("Slack app", "xapp-", f"1-{_any(11)}-{_hex(64)}"),
    _key("npm", "npm_", _any(36)),
    _key("PyPI", "pypi-", _of(_BASE64URL, 80)),
    _key("NVIDIA", "nvapi-", _of(_BASE64URL, 64)),
    _key("Groq", "gsk_", _any(52)),
    _key("Databricks", "dapi", _hex(32)),
    _key("SendGrid", "SG.", f"{_any(22)}.{_of(_BASE64URL, 43)}"),
    _key("Telegram", "bot ", f"{_of('123456789', 9)}:{_of(_BASE64URL, 35)}"),
    _key("JWT", "", f"eyJ{_any(20)}.eyJ{_any(40)}.{_of(_BASE64URL, 43)}"),
    _key("private key", "-----BEGIN RSA PRIVATE KEY----- ", f"{_any(64)} {_any(40)}", " -----END RSA PRIVATE KEY-----"),
    _key("SSH key", "ssh-rsa ", f"AAAA{_of(_LETTERS + '+/', 96)}"),
    _key("bearer header", "Authorization: Bearer ", _any(12)),
    _key("basic header", "Authorization: Basic ", f"{_any(15)}="),
    _key("URL with a password", "https://bob:", _password(), "@example.test/x"),
    _key("database", "postgresql://bob:", _password(), "@db/run"),
    _key("cluster", "mongodb+srv://bob:", _password(), "@cluster/x"),
    _key("password without user", "redis://:", _password(), "@cache:6379/0"),
    _key("Azure", "AccountName=run;AccountKey=", f"{_of(_LETTERS + '+/', 86)}=="),
    _key("UUID", "job-", _uuid()),
    _key("UUID of a card", "GPU-", _uuid()),
    _key("environment variable", "DB_PASSWORD=", _password()),
    _key("JSON", '{"password": "', _password(), '"}'),
    _key("JSON with a space", '"client_secret" : "', f"{_any(5)} {_any(5)}", '"'),
    _key("YAML", "api_key: ", _any(9)),
    _key("option", "train --token=", _any(8)),
    _key("option with a space", "train --password ", _password()),
    _key("option for a key", "train --api-key ", _any(8)),
    _key("said in words", "the password is ", _password()),
    _key("curl", "curl -u bob:", _password()),
    _key("signed URL", "sig=", _of(_LETTERS + "%", 30)),
    _key("TOTP", "otp_secret=", _of(string.ascii_uppercase + "234567", 16)),
    _key("no known form, letters and digits", "run_", _any(24)),
    _key("no known form, base64", "x", _of(_LETTERS + "+/", 64), "=="),
    _key("digits", "card ", _of("123456789", 16)),
)  # fmt: skip
# Where someone works.
PLACES_AND_PEOPLE = (
    Form("mail", f"by {_WHO[0]}@{_WHO[1]}.com", _WHO),
    Form("login", f"{_WHO[0]}@gpu7", _WHO[:1]),
    Form("name alone", f"train by {_WHO[0]}", _WHO[:1]),
    Form("IPv4", "to 10.83.117.204", ("10.83.117.204",)),
    Form("IPv6", "to 2001:0db8:85a3:0000:0000:8a2e:0370:7334", ("85a3:0000", "8a2e:0370")),
    Form("short IPv6", "bind_fe80::8a2e:7334", ("8a2e:7334",)),
    Form("MAC", "link 00:1b:44:11:3a:b7", ("1b:44:11:3a",)),
    Form("MAC with dashes", "link 00-1B-44-11-3A-B7", ("1B-44-11-3A",)),
    Form("home", f"/home/{_WHO[0]}/{_WHO[1]}/run.py", _WHO),
    Form("home with spaces", f"load /home/{_WHO[0]}/My Runs/{_WHO[1]} 2/a b.pt", _WHO),
    Form("macOS", f"/Users/{_WHO[0]}/Library/{_WHO[1]}", _WHO),
    Form("tilde", f"~{_WHO[0]}/{_WHO[1]}", _WHO),
    Form("variable", f"$HOME/{_WHO[1]}/x", _WHO[1:]),
    Form("relative", f"runs/{_WHO[1]}/last.ckpt", _WHO[1:]),
    Form("Windows", f"C:\\Users\\{_WHO[0]}\\{_WHO[1]}\\x.bin", _WHO),
    Form("Windows with spaces", f"D:\\My Data\\{_WHO[1]} two\\x y.bin", _WHO[1:]),
    Form("UNC", f"\\\\nas7\\{_WHO[1]}\\x y", ("nas7", _WHO[1])),
    Form("S3", f"s3://{_WHO[1]}/run", _WHO[1:]),
    Form("Google store", f"gs://{_WHO[1]}/run", _WHO[1:]),
    Form("page", f"https://wiki.{_WHO[1]}.io/page?user={_WHO[0]}", _WHO),
    Form("file URL", f"file:///home/{_WHO[0]}/{_WHO[1]}", _WHO),
    Form("host", f"gpu7.{_WHO[1]}.internal", _WHO[1:]),
    Form("EC2 host", "on ip-10-83-117-204", ("83-117",)),
    Form("project", "moonshot_v2", ("moonshot",)),
    Form("class", "VeselyModel", ("Vesely",)),
    Form("word among words", "train moonshot on gpu", ("moonshot",)),
    Form("telephone", "call +49 170 5550 1234", ("170 5550",)),
)
# As people write them: `#` stands for a digit, `^` for a hexadecimal one, `?` for a small letter, `*`
# for a letter or digit.
PLANTED = {
    "telephone": """
        +49 ### #### ###|0###-#######|(0##) #### ####|+1 (###) ###-####|0049###########|###-###-####
        |###.###.####|###_###_####|0###_######|0###/######|9######|0#########|### ### ####
        |(###)###-####|tel_0##_#### ###""",
    "host": """
        gpu-??????-17|gpu-^^^^^^-17|job-?-worker-0|?????.example.de|????.???.ac.uk|gpu##|gpu_##|node##
        |node-##|??????-##|???-####|gpu-######-17|worker-#.job-?.svc|h###-rack#-##|ip_10_###_###_##
        |n0##|r##i#n#|????????##""",
    "token": """
        myToken****|myToken????|myToken********|token????|Token#####|pw******|key######|^^^^^^^^^^^^
        |************|????????|******_******|secret??????|myPassword????|apikey******""",
}
_ALPHABETS = {"#": string.digits, "^": "0123456789abcdef", "?": string.ascii_lowercase}
_ALPHABETS |= {"*": _LETTERS}


def planted(seed: int) -> tuple[Form, ...]:
    """A secret of each."""
    chance, found = random.Random(seed), []
    for kind, texts in PLANTED.items():
        for text in map(str.strip, texts.split("|")):
            drawn = (chance.choice(_ALPHABETS.get(letter, letter)) for letter in text)
            secret = "".join(drawn)
            found.append(Form(f"{kind} {text}", secret, (secret,)))
    return tuple(found)


NAMES = (_WHO[0], "nas7")
FORMS = (*KEYS, *PLACES_AND_PEOPLE, *planted(1))

Place = Callable[[list[str]], build.Doc]


def _document(events: list[build.Event], header: build.Event | None = None) -> build.Doc:
    """One op and its kernel, and the events after them, each of 1 us."""
    shown = build.HEADER | (header or {})
    doc = build.Doc(
        build.launch_events(),
        {key: value for key, value in shown.items() if key != "host_name"},
        {},
    )
    for at, event in enumerate(events):
        doc.events.append(
            event
            if "ts" in event or event["ph"] == "M"
            else event | {"ts": build.us(3_000_000 + at * 2_000), "dur": build.us(1_000)}
        )
    return doc


def _named(kind: str, name: str, pid: Any = 100, tid: Any = 100) -> Place:
    """In the name of events of a kind; `{}` is the secret."""
    return lambda texts: _document(
        [
            {
                "ph": "X",
                "cat": kind,
                "name": name.replace("{}", text),
                "pid": pid,
                "tid": tid,
                "args": {},
            }
            for text in texts
        ]
    )


# Without these a reader ignores the argument.
_SHAPES = {"Input Dims": [[1], [1]], "Input type": ["float", ""]}
_BESIDE: dict[str, build.Event] = {
    "Concrete Inputs": _SHAPES,
    "Input type": {"Input Dims": [[1]]},
    "Input Dims": {"Input type": ["float", "float"]},
    "Input Strides": _SHAPES,
    "dtype": {"Collective name": "allreduce"},
    "num_warps": {"kernel_backend": "triton"},
    "kernel_hash": {"kernel_backend": "triton"},
    "kernel_kwargs": {"kernel_backend": "triton"},
    "stream": {"correlation": 90, "device": 0},
    "grid": {"correlation": 90, "device": 0, "stream": 7},
}


def _argument(kind: str, key: str, made: Callable[[str], Any] = lambda text: text) -> Place:
    """In an argument of ops, kernels and the rest."""
    event = {"ph": "X", "cat": kind, "name": "aten::mm", "pid": 100, "tid": 100}
    more = _BESIDE.get(key, {})
    return lambda texts: _document([event | {"args": more | {key: made(text)}} for text in texts])


def _metadata(name: str, key: str) -> Place:
    return lambda texts: _document(
        [build.meta(name, at, at, {key: text}) for at, text in enumerate(texts, 200)]
    )


def _header(made: Callable[[list[str]], build.Event]) -> Place:
    return lambda texts: _document([], made(texts))


def _raw(made: Callable[[str], build.Event]) -> Place:
    return lambda texts: _document([made(text) for text in texts])


_X = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 100, "tid": 100}
PLACES: dict[str, Place] = {
    "region": _named("user_annotation", "{}"),
    "region behind a word": _named("user_annotation", "run_{}"),
    "region between words": _named("user_annotation", "load {} now"),
    "region in brackets": _named("user_annotation", "step[{}]"),
    "step": _named("user_annotation", "ProfilerStep#{}"),
    "graph": _named("user_annotation", "## Call CompiledFxGraph {} ##"),
    "optimizer": _named("user_annotation", "Optimizer.step#{}.step"),
    "GPU region": _named("gpu_user_annotation", "{}", 0, 7),
    "op": _named("cpu_op", "{}"),
    "op of aten": _named("cpu_op", "aten::{}"),
    "op of another": _named("cpu_op", "custom::{}"),
    "autograd": _named("cpu_op", "autograd::engine::evaluate_function: {}"),
    "kernel": _named("kernel", "{}", 0, 7),
    "kernel of C++": _named("kernel", "void run<{}>(int)", 0, 7),
    "kernel of Triton": _named("kernel", "triton_poi_fused_{}_0", 0, 7),
    "memcpy": _named("gpu_memcpy", "Memcpy {}", 0, 7),
    "runtime call": _named("cuda_runtime", "cuda{}"),
    "driver call": _named("cuda_driver", "{}"),
    "overhead": _named("overhead", "{}"),
    "synchronization": _named("cuda_sync", "{}"),
    "frame": _named("python_function", "{}.py(3): main"),
    "span": _named("Trace", "{}", "Spans", "PyTorch Profiler"),
    "category": _raw(lambda text: _X | {"cat": text}),
    "process": _raw(lambda text: _X | {"pid": text}),
    "thread": _raw(lambda text: _X | {"tid": text}),
    "argument": _argument("cpu_op", "note"),
    "key of an argument": _raw(lambda text: _X | {"args": {text: 1}}),
    "value": _argument("cpu_op", "Concrete Inputs", lambda text: [text, "1"]),
    "type": _argument("cpu_op", "Input type", lambda text: [text]),
    "sizes": _argument("cpu_op", "Input Dims", lambda text: [text, [1]]),
    "strides": _argument("cpu_op", "Input Strides", lambda text: [text]),
    "call stack": _argument("cpu_op", "Call stack"),
    "module": _argument("cpu_op", "Module Hierarchy"),
    "collective": _argument("cpu_op", "Collective name"),
    "dtype": _argument("cpu_op", "dtype"),
    "process group": _argument("cpu_op", "Process Group Name"),
    "description of a group": _argument("cpu_op", "Process Group Description"),
    "kind of synchronization": _argument("cuda_sync", "cuda_sync_kind"),
    "stream": _argument("kernel", "stream"),
    "grid": _argument("kernel", "grid", lambda text: [text, 1, 1]),
    "backend": _argument("cpu_op", "kernel_backend"),
    "warps": _argument("cpu_op", "num_warps"),
    "file of a kernel": _argument("cpu_op", "kernel_file"),
    "hash of a kernel": _argument("cpu_op", "kernel_hash"),
    "Triton's arguments": _argument("cpu_op", "kernel_kwargs", lambda text: {"x": text, text: 1}),
    "name of a process": _metadata("process_name", "name"),
    "name of a thread": _metadata("thread_name", "name"),
    "labels": _metadata("process_labels", "labels"),
    "instant": _raw(lambda text: build.instant(text, 100, 100, 3_000_000)),
    "flow": _raw(lambda text: build.flow("s", 7, 100, 100, 3_000_000, name=text)),
    "counter": _raw(lambda text: {"ph": "C", "name": text, "pid": 1, "tid": 1, "ts": 1, "args": {text: 1}}),
    "name of the card": _header(lambda texts: {"deviceProperties": [build.DEVICE | {"name": f"NVIDIA H100 {text}"} for text in texts]}),
    "property of the card": _header(lambda texts: {"deviceProperties": [build.DEVICE | {"owner": text} for text in texts]}),
    "host": _header(lambda texts: {"host_name": texts[0], "hosts": texts}),
    "user": _header(lambda texts: {"username": texts[0], "job": {"users": texts}}),
    "log": _header(lambda texts: {"INFO": texts}),
    "environment": _header(lambda texts: {"environment": dict.fromkeys(texts, "1") | {"VALUES": texts}}),
    "name of the trace": _header(lambda texts: {"traceName": " ".join(texts)}),
    "ranks": _header(lambda texts: {"distributedInfo": {"rank": 1, "world_size": 2, "backend": texts[0], "pg_config": texts}}),
}  # fmt: skip
