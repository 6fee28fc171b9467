"""The hand-off in a real browser, to a page of our own that speaks Perfetto's side of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from foretrace.pages.export import handoff
from foretrace.read.recordings import traces
from pages.browser.conftest import Browser

pytestmark = pytest.mark.browser
# Not ready at once, as the real page is not; then one PONG for each PING, and the trace is taken.
PERFETTO = b"""<!doctype html><title>not Perfetto</title><script>
window.pings = 0;
addEventListener('message', (event) => {
  if (event.data === 'PING' && ++window.pings > 3) event.source.postMessage('PONG', event.origin);
  if (event.data.perfetto) window.taken = {...event.data.perfetto, from: event.origin};
});
</script>"""


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PERFETTO)

    def log_message(self, *given: object) -> None:
        pass


@pytest.fixture
def perfetto() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_click_hands_the_trace_over(browser: Browser, perfetto: str) -> None:
    path = traces()["mlp_eager"]
    server = handoff.page(path, path.name, origin=perfetto)
    thread = threading.Thread(target=handoff.serve_until_fetched, args=(server, 60), daemon=True)
    thread.start()
    own = browser.driver.current_window_handle
    browser.open(server.address)
    assert browser.console() == []
    browser.find("#views button").click()
    browser.wait(
        "document.querySelector('#views [role=status]').textContent.startsWith('Sent to Perfetto')"
    )
    other = next(handle for handle in browser.driver.window_handles if handle != own)
    browser.driver.switch_to.window(other)
    taken = browser.run("return [taken.buffer.byteLength, taken.title, taken.fileName, taken.from]")
    browser.driver.close()
    browser.driver.switch_to.window(own)
    assert taken == [
        path.stat().st_size,
        path.name,
        path.name,
        server.address.split("/", 3)[0] + "//" + server.address.split("/")[2],
    ]
    thread.join(10)
    assert not thread.is_alive()


FETCH = """
const [address, done] = arguments;
fetch(address).then((answer) => answer.arrayBuffer()).then((held) => done(held.byteLength), () => done('refused'));
"""


def test_only_perfettos_page_fetches_the_file(browser: Browser, perfetto: str) -> None:
    """`--port-9001`: a page of another origin gets nothing, even with the whole address."""
    path = traces()["mlp_eager"]
    server = handoff.one_file(path, origin=perfetto, port=0)
    thread = threading.Thread(target=handoff.serve_until_fetched, args=(server, 60), daemon=True)
    thread.start()
    address = server.address.partition("url=")[2]
    browser.driver.get(perfetto.replace("127.0.0.1", "localhost"))
    assert browser.driver.execute_async_script(FETCH, address) == "refused"
    browser.driver.get(perfetto)
    assert browser.driver.execute_async_script(FETCH, address) == path.stat().st_size
    thread.join(10)
    assert not thread.is_alive()
