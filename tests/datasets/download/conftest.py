# SPDX-License-Identifier: BSD-3-Clause
"""A server on this machine that is slow, drops, lies, redirects and changes its mind; no other is asked."""

import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@dataclass
class Thing:
    """What lies at a path, and how it is served."""

    data: bytes = b""
    etag: str | None = '"one"'
    modified: str | None = None
    ranges: bool = True
    drop_after: list[int] = field(default_factory=list)  # bytes to send before the connection breaks
    length: int | None = None  # announced instead of the true one
    no_length: bool = False
    codes: list[int] = field(default_factory=list)  # answered first
    headers: dict[str, str] = field(default_factory=dict)
    location: str | None = None
    pause_s: float = 0.0
    bad_range: bool = False
    blind: bool = False  # answers a range whatever If-Range says


@dataclass
class Server:
    """Things by path, and the requests that came."""

    things: dict[str, Thing] = field(default_factory=dict)
    asked: list[tuple[str, str | None, str | None]] = field(default_factory=list)
    port: int = 0
    reason: str | None = None

    def put(self, path: str, thing: Thing, host: str = "127.0.0.1") -> str:
        self.things[path] = thing
        return f"http://{host}:{self.port}{path}"

    def ranges(self) -> list[str | None]:
        return [asked[1] for asked in self.asked]


def handler_of(server):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            server.asked.append((self.path, self.headers["Range"], self.headers["If-Range"]))
            self.close_connection = True
            thing = server.things.get(self.path)
            if thing is None:
                self._answer(404, {"Content-Length": "0"})
            elif thing.location is not None:
                self._answer(302, {"Location": thing.location, "Content-Length": "0"})
            elif thing.codes:
                self._answer(thing.codes.pop(0), {"Content-Length": "0", **thing.headers})
            else:
                self._send(thing)

        def _answer(self, code, headers):
            self.send_response(code, server.reason)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()

        def _send(self, thing):
            data, code, headers = thing.data, 200, dict(thing.headers)
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
            valid = thing.blind or self.headers["If-Range"] in (None, thing.etag, thing.modified)
            if asked and thing.ranges and valid:
                start = int(asked[1])
                if start >= len(data):
                    self._answer(416, {"Content-Range": f"bytes */{len(data)}", "Content-Length": "0"})
                    return
                code, total, data = 206, len(data), data[start:]
                stated = 0 if thing.bad_range else start
                headers["Content-Range"] = f"bytes {stated}-{total - 1}/{total}"
            if thing.etag:
                headers["ETag"] = thing.etag
            if thing.modified:
                headers["Last-Modified"] = thing.modified
            if not thing.no_length:
                headers["Content-Length"] = str(len(data) if thing.length is None else thing.length)
            self._answer(code, headers)
            drop = thing.drop_after.pop(0) if thing.drop_after else None
            body = data if drop is None else data[:drop]
            step = max(1, len(body) // 8) if thing.pause_s else len(body) or 1
            try:
                for at in range(0, len(body), step):
                    self.wfile.write(body[at : at + step])
                    self.wfile.flush()
                    if thing.pause_s:
                        time.sleep(thing.pause_s)
            except OSError:
                pass

    return Handler


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("TIEPOINT_SOURCES", raising=False)
    found = Server()
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(found))
    http.daemon_threads = True
    found.port = http.server_address[1]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield found
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture
def thing():
    return Thing
