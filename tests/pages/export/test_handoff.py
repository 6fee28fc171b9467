"""The servers that pass a trace to Perfetto: to its page alone, once, and not for long."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from foretrace.pages.export import handoff
from foretrace.read.recordings import traces

MLP = traces()["mlp_eager"]
ORIGIN = f"Origin: {handoff.PERFETTO}"


@contextmanager
def running(server: handoff.OneTrace) -> Iterator[list[bool]]:
    """What `serve_until_fetched` returned, once the block is left."""
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(handoff.serve_until_fetched(server, 30)))
    thread.start()
    yield done
    server.served.set()
    thread.join(10)
    assert not thread.is_alive()


def send(server: handoff.OneTrace, *lines: str) -> tuple[int, bytes, bytes]:
    """The status, the header and the body of an answer to lines as they are."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
        line.sendall("".join(f"{each}\r\n" for each in (*lines, "")).encode("latin-1"))
        held = b""
        with suppress(OSError):
            while part := line.recv(1 << 16):
                held += part
    head, _, body = held.partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head.startswith(b"HTTP/") else 0), head, body


def get(server: handoff.OneTrace, *lines: str, path: str = "") -> tuple[int, bytes, bytes]:
    host = f"Host: 127.0.0.1:{server.port}"
    return send(server, f"GET {path or server.last} HTTP/1.1", host, *lines)


def test_one_file_is_served_once_to_perfetto_alone() -> None:
    """`perfetto --port-9001` answers Perfetto's Origin, and neither none nor another."""
    server = handoff.one_file(MLP, port=0)
    with running(server) as done:
        for origin in ([], ["Origin: https://evil.com"], ["Origin: null"], [ORIGIN, ORIGIN]):
            assert get(server, *origin)[0] == 403
        assert get(server, f"Origin: http://127.0.0.1:{server.port}")[0] == 403
        assert get(server, f"{ORIGIN}.evil.com")[0] == 403
        for path in (f"/{MLP.name}", "/", "/../../etc/passwd", f"{server.last}x", "/\xff/x"):
            assert get(server, ORIGIN, path=path)[0] == 404
        status, head, body = get(server, ORIGIN)
        assert (status, body) == (200, MLP.read_bytes())
        assert f"Access-Control-Allow-Origin: {handoff.PERFETTO}\r".encode() in head
        with suppress(OSError):
            assert get(server, ORIGIN)[0] in (0, 410)
    assert done == [True]
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.port), timeout=60)


@pytest.mark.parametrize(
    "lines",
    [
        ["GET {path} HTTP/1.1", ORIGIN],
        ["GET {path} HTTP/1.1", "Host: evil.com", ORIGIN],
        ["GET {path} HTTP/1.1", "{host}", "Host: evil.com", ORIGIN],
        ["GET {path}", "{host}", ORIGIN],
        ["HEAD {path} HTTP/1.1", "{host}", ORIGIN],
        ["OPTIONS {path} HTTP/1.1", "{host}", ORIGIN],
        ["PUT {path} HTTP/1.1", "{host}", ORIGIN, "Content-Length: 5"],
        ["GET http://127.0.0.1{path} HTTP/1.1", "{host}", ORIGIN],
        ["GET {path} HTTP/1.1", "{host}", ORIGIN, "X: " + "a" * (1 << 20)],
        ["GET {path} HTTP/1.1", "{host}", ORIGIN, *(["X: a"] * 1000)],
        ["GET /" + "a" * (1 << 20) + " HTTP/1.1", "{host}", ORIGIN],
    ],
    ids=lambda lines: " ".join(line[:24] for line in lines)[:60],
)
def test_what_else_is_refused(lines: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    server = handoff.one_file(MLP, port=0)
    with running(server):
        host = f"Host: 127.0.0.1:{server.port}"
        with suppress(ConnectionError):  # cut before it was read
            status, _, body = send(
                server, *(line.format(path=server.last, host=host) for line in lines)
            )
            assert status == 0 or status >= 400
            assert MLP.read_bytes() not in body
        assert not server.served.is_set()
        assert get(server, ORIGIN)[0] == 200
    assert capfd.readouterr().err == ""


def test_a_page_of_our_own_fetches_without_an_origin() -> None:
    server = handoff.page(MLP, MLP.name)
    root = server.last.removesuffix("trace")
    with running(server):
        assert get(server, ORIGIN)[0] == 403
        assert get(server, path="/trace")[0] == 404
        status, head, body = get(server, path=root)
        assert status == 200
        assert b"Referrer-Policy: no-referrer" in head
        assert root.strip("/").encode() not in body
        assert get(server, f"Origin: http://127.0.0.1:{server.port}")[2] == MLP.read_bytes()


def test_slow_clients_hold_up_nobody(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user may open a line and say nothing, or very many."""
    server = handoff.one_file(MLP, port=0)
    with running(server) as done:
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
        silent[0].sendall(b"GET / HTTP/1.1\r\nHost: ")
        monkeypatch.setattr(handoff, "MOST_THREADS", 0)
        with suppress(OSError):
            assert get(server, ORIGIN)[0] == 0
        monkeypatch.undo()
        assert get(server, ORIGIN)[0] == 200
    assert done == [True]
    for line in silent:
        line.close()
    assert capfd.readouterr().err == ""


def test_a_client_that_leaves_may_come_again(tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    large.write_bytes(b"x" * (16 << 20))
    server = handoff.one_file(large, port=0)
    with running(server):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
            head = f"GET {server.last} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{ORIGIN}"
            line.sendall(f"{head}\r\n\r\n".encode())
            line.recv(100)
        for _ in range(100):  # the server sees it when it next writes
            status, _, body = get(server, ORIGIN)
            if status != 410:
                break
        assert (status, len(body)) == (200, 16 << 20)


def test_nobody_comes() -> None:
    assert handoff.serve_until_fetched(handoff.one_file(MLP, port=0), 0.05) is False
