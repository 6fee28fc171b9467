"""Odd, slow and large requests: a 4xx each, and the next one is answered."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

import pytest

from foretrace.pages.serve import app
from pages.serve.running import Viewer, viewer

TILE = "trace/0/tile?from=0&to=1000000&width=1000"
MANY, HUGE = "a=1&" * 10_000, "9" * 5000
ODD_PARAMETERS = (
    *(f"{TILE}&among={quote(text)}" for text in ("²", "١", HUGE, "-1", "NaN", "7", "", "1e1")),
    *(f"{TILE}&among={text}" for text in ("0", "1,2", "0,0", "0,7", "0,1,0")),
    *(
        f"trace/0/tile?from={quote(text)}&to=1&width=1"
        for text in ("NaN", "inf", "²", "١", "1e5", HUGE, "", " 1", "1_0", "0x1", "\0")
    ),
    "trace/0/tile",
    *(f"{TILE}&tracks={quote(text)}" for text in ("a", "-1", ",", "1,", "²", HUGE)),
    "trace/0/tile?from=0&width=5",
    f"trace/{HUGE}/work",
    f"trace/0/tile?{MANY}",
    f"trace/{HUGE}",
    f"trace/0/event/{HUGE}",
    f"trace/0/event/{2**63}",
    "trace/0/event/-1",
    f"trace/{quote('²')}",
    f"trace/{quote('١')}",
    f"compare?traces={HUGE},0",
    f"compare?traces=0,{2**64}",
    "compare?traces=0,1,2,3,4",
    "compare",
    "trace/0/sql",
    "trace/0/sql?q=%ff",
    "trace/0/sql?q=%ed%a0%80",
    "trace/0/table/%00",
    "trace/0/table/",
)
ANSWERED = (
    "trace/0/tile?from=-999999999999999999&to=999999999999999999&width=999999999999999999",
    "trace/0/tile?from=999999999999999999&to=-999999999999999999.5&width=-5",
    f"trace/0/event/{10**18 - 1}",
    "trace/0/work?event=x",
    "trace/0/search?q=%00%ff",
    "traces?" + "&" * 20_000,
)


def test_odd_parameters_are_refused(served: Viewer) -> None:
    """`among=²`, NaN, ten thousand parameters: never a 500."""
    served.json("trace/0")
    served.json("trace/1")
    for path in ODD_PARAMETERS:
        assert 400 <= served.get(path)[0] < 500, path[:80]
    for path in ANSWERED:
        assert served.get(path)[0] == 200, path[:80]


LINE = "GET {base}traces HTTP/1.1\r\n{host}"
NOT_HTTP = {
    "HTTP/0.9": "GET {base}traces\r\n\r\n",
    "said to be 0.9": "GET {base}traces HTTP/0.9\r\n{host}\r\n",
    "HTTP/2": "GET {base}traces HTTP/2.0\r\n{host}\r\n",
    "HTTP/2 preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    "absolute, ours": "GET http://127.0.0.1:{port}{base}traces HTTP/1.1\r\n{host}\r\n",
    "absolute, other": "GET http://evil.com/ HTTP/1.1\r\n{host}\r\n",
    "asterisk": "GET * HTTP/1.1\r\n{host}\r\n",
    "two spaces": "GET  {base}traces HTTP/1.1\r\n{host}\r\n",
    "bytes in the target": "GET {base}\xff HTTP/1.1\r\n{host}\r\n",
    "bytes in the method": "G\xc9T {base}traces HTTP/1.1\r\n{host}\r\n",
    "two lengths": LINE + "Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
    "a list of lengths": LINE + "Content-Length: 0, 5\r\n\r\nhello",
    "signed length": LINE + "Content-Length: +5\r\n\r\nhello",
    "huge length": LINE + "Content-Length: " + HUGE + "\r\n\r\n",
    "odd length": LINE + "Content-Length: \xb2\r\n\r\n",
    "length and chunks": LINE + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks": LINE + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "broken chunks": LINE + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "unknown coding": LINE + "Transfer-Encoding: xchunked\r\n\r\n",
    "space before the colon": LINE + "Transfer-Encoding : chunked\r\n\r\n",
    "folded host": LINE + " more: x\r\n\r\n",
    "NUL": LINE + "X: a\x00b\r\n\r\n",
    "no colon": LINE + "X\r\n\r\n",
    "empty lines first": "\r\n\r\n" + LINE + "\r\n",
}


@pytest.mark.parametrize("case", NOT_HTTP)
def test_what_is_not_our_http_is_refused(served: Viewer, case: str) -> None:
    host = f"Host: 127.0.0.1:{served.port}\r\n"
    text = NOT_HTTP[case].format(base=served.base, host=host, port=served.port)
    status, _, body = served.send(text.encode("latin-1"))
    assert 400 <= status < 500
    assert b"mlp" not in body
    assert b"HTTP/" not in body.replace(b"HTTP/1.1 alone", b"")  # one answer, not two


def test_a_second_request_on_a_line_is_not_answered(served: Viewer) -> None:
    """Pipelining: one request per connection."""
    one = f"GET {served.base}traces HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n\r\n"
    status, _, body = served.send(one.encode() * 3)
    assert status == 200
    assert body.count(b"HTTP/1.1") == 0


@pytest.mark.parametrize("size", [40_000, 60_000, 200_000, 1 << 20])
@pytest.mark.parametrize("form", ["X: {}\r\n", "{}: x\r\n", "{}"])
def test_the_header_limit_is_the_same_however_a_header_arrives(
    served: Viewer, size: int, form: str
) -> None:
    line = f"GET {served.base}traces HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
    more = form.format("a" * size) if form != "{}" else "X: a\r\n" * (size // 6)
    assert served.send(f"{line}{more}\r\n".encode())[0] == 431
    assert served.get("a" * size)[0] == 431
    assert served.send(f"{line}X: {'a' * 30_000}\r\n\r\n".encode())[0] == 200


def test_bodies_are_refused_unread(served: Viewer) -> None:
    head = f"{{}} {served.base}traces HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
    for method, status in (("GET", 413), ("POST", 405)):
        start = head.format(method).encode() + b"Content-Length: 104857600\r\n\r\n"
        assert served.send(start)[0] == status
        # the line may be cut while the rest is still on its way
        assert served.send(start + b"x" * (8 << 20))[0] in (status, 0)
    assert served.get("traces")[0] == 200


def test_slow_clients_hold_up_nobody(served: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "SLOWEST_S", 0.3)
    slow = [socket.create_connection(("127.0.0.1", served.port), timeout=60) for _ in range(50)]
    for line in slow:
        line.sendall(b"GET / HTTP/1.1\r\nHost: ")
    assert served.get("traces")[0] == 200
    assert {line.recv(1024)[:12] for line in slow} == {b"HTTP/1.1 408"}
    for line in slow:
        line.close()
    assert served.get("traces")[0] == 200


def test_a_silent_connection_is_closed_and_one_with_the_token_may_be_slow(
    served: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "SLOWEST_S", 600)
    monkeypatch.setattr(app, "STRANGER_S", 0.2)
    place = ("127.0.0.1", served.port)
    with socket.create_connection(place, timeout=60) as silent, suppress(ConnectionResetError):
        slow = socket.create_connection(place, timeout=60)
        slow.sendall(f"GET {served.base}traces HTTP/1.1\r\n".encode())
        assert silent.recv(1024) == b""
    slow.sendall(f"Host: 127.0.0.1:{served.port}\r\n\r\n".encode())
    assert slow.recv(1024).startswith(b"HTTP/1.1 200")
    slow.close()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """A viewer of a file larger than what the kernel keeps for a client."""
    path = tmp_path_factory.mktemp("large") / "large.json"
    path.write_bytes(b'{"schemaVersion": 1, "traceEvents": [' + b" " * (24 << 20) + b"]}")
    with viewer(str(path.parent)) as running:
        yield running


def ask_for_file(running: Viewer) -> socket.socket:
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
    line.settimeout(60)
    line.connect(("127.0.0.1", running.port))
    host = f"Host: 127.0.0.1:{running.port}"
    line.sendall(f"GET {running.base}trace/0/file HTTP/1.1\r\n{host}\r\n\r\n".encode())
    return line


def taken(line: socket.socket, pause_s: float) -> int:
    """How many bytes come, read in parts with pauses between them."""
    count = 0
    with suppress(OSError):
        while part := line.recv(1 << 20):
            count += len(part)
            time.sleep(pause_s)
    return count


def test_slow_readers_hold_nothing(large: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not take its answer is cut off; one that is merely slow is not."""
    monkeypatch.setattr(app, "SLOWEST_S", 0.3)
    stuck = [ask_for_file(large) for _ in range(5)]
    for line in stuck:
        cut = select.poll()
        cut.register(line, 0)  # an error or the end, without reading
        assert cut.poll(10_000)
    assert all(taken(line, 0) < 24 << 20 for line in stuck)
    for line in stuck:
        line.close()
    with ask_for_file(large) as steady:
        assert taken(steady, 0.001) > 24 << 20


def test_a_hundred_at_once_half_of_them_bad(served: Viewer) -> None:
    served.json("trace/0")
    statuses: list[int] = []
    good = "trace/0/tile?from=0&to=2000000&width=1000"

    def one(at: int) -> None:
        headers = {"Origin": "https://evil.com"} if at % 4 == 1 else {}
        statuses.append(served.get(good if at % 2 == 0 else "../../etc/passwd", headers)[0])

    threads = [threading.Thread(target=one, args=(at,)) for at in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(statuses) == 100
    assert statuses.count(200) == 50
    assert set(statuses) <= {200, 403, 404}


OUR_HOSTS = ("127.0.0.1", "localhost", "LOCALHOST", "[::1]")


@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "evil.com:{port}",
        "127.0.0.1.evil.com:{port}",
        "localhost.evil:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "0.0.0.0:{port}",
        "",
        "127.0.0.1:{port}\r\nHost: evil.com",
    ],
)
def test_a_wrong_host_is_refused(served: Viewer, host: str) -> None:
    assert served.get("traces", {"Host": host.format(port=served.port)})[0] in (400, 421)


def test_our_own_names_are_answered_and_a_missing_one_is_refused(served: Viewer) -> None:
    for name in OUR_HOSTS:
        assert served.get("traces", {"Host": f"{name}:{served.port}"})[0] == 200, name
    assert served.send(f"GET {served.base}traces HTTP/1.0\r\n\r\n".encode())[0] == 421
    assert served.send(f"GET {served.base}traces HTTP/1.1\r\n\r\n".encode())[0] in (400, 421)


OTHER_ORIGINS = ("https://evil.com", "null", "http://127.0.0.1:1", "https://ui.perfetto.dev")


def test_no_origin_but_that_of_the_host_is_answered(served: Viewer) -> None:
    """Another user may listen on ::1 at our port, and serve a page there."""
    for origin in (*OTHER_ORIGINS, "file://"):
        status, headers, _ = served.get("traces", {"Origin": origin})
        assert (status, "access-control-allow-origin" in headers) == (403, False), origin
    for host, origin in (("127.0.0.1", "[::1]"), ("localhost", "127.0.0.1")):
        given = {"Host": f"{host}:{served.port}", "Origin": f"http://{origin}:{served.port}"}
        assert served.get("traces", given)[0] == 403
    assert served.get("traces", {"Origin": f"http://127.0.0.1:{served.port}"})[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "",
        "traces",
        "trace/0",
        "trace/0/tile?from=0&to=1&width=1",
        "trace/0/sql?q=select",
        "trace/0/file",
        "trace/0/table/kernels.csv",
        "compare/0/1",
        "trace/0/report",
        "trace/0/event/1",
    ],
)
@pytest.mark.parametrize("token", ["", "wrong/", "%00/", "../"])
def test_every_route_needs_the_token(served: Viewer, path: str, token: str) -> None:
    status, _, body = served.send(
        f"GET /{token}{path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n\r\n".encode()
    )
    assert status == 403
    assert b"token" in body


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "TRACE", "OPTIONS", "HEAD", "PATCH", "CONNECT", "FOO"]
)
def test_get_alone(served: Viewer, method: str) -> None:
    assert served.get("traces", method=method)[0] in (400, 405)


def test_the_token_stays_in_the_address(served: Viewer) -> None:
    """Not in a title, a Referer, an answer, a cookie or a log."""
    token = served.base.strip("/")
    for path in ("", "traces", "trace/0", "trace/0/report", "nothing"):
        _, headers, body = served.get(path)
        assert headers["referrer-policy"] == "no-referrer"
        assert token.encode() not in body
        assert not any(token in value for value in headers.values())
