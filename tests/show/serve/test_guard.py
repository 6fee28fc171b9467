"""Which requests are answered: those of our own page, with this run's token."""

from __future__ import annotations

import pytest

from show.serve.running import Viewer


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


def test_a_missing_host_is_refused(served: Viewer) -> None:
    assert served.send(f"GET {served.base}traces HTTP/1.0\r\n\r\n".encode())[0] == 421
    assert served.send(f"GET {served.base}traces HTTP/1.1\r\n\r\n".encode())[0] in (400, 421)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_our_own_names_are_answered(served: Viewer, name: str) -> None:
    assert served.get("traces", {"Host": f"{name}:{served.port}"})[0] == 200


@pytest.mark.parametrize(
    "origin",
    ["https://evil.com", "null", "http://127.0.0.1:1", "https://ui.perfetto.dev", "file://"],
)
def test_a_wrong_origin_is_refused(served: Viewer, origin: str) -> None:
    status, headers, _ = served.get("traces", {"Origin": origin})
    assert status == 403
    assert "access-control-allow-origin" not in headers


def test_our_own_origin_is_answered(served: Viewer) -> None:
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


def test_an_origin_is_that_of_the_host(served: Viewer) -> None:
    """Another user may listen on ::1 at our port, and serve a page there."""
    for host, origin in (("127.0.0.1", "[::1]"), ("localhost", "127.0.0.1")):
        headers = {"Host": f"{host}:{served.port}", "Origin": f"http://{origin}:{served.port}"}
        assert served.get("traces", headers)[0] == 403


def test_the_token_stays_in_the_address(served: Viewer) -> None:
    """Not in a title, a Referer, an answer, a cookie or a log."""
    token = served.base.strip("/")
    for path in ("", "traces", "trace/0", "trace/0/report", "nothing"):
        _, headers, body = served.get(path)
        assert headers["referrer-policy"] == "no-referrer"
        assert token.encode() not in body
        assert not any(token in value for value in headers.values())
