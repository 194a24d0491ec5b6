# SPDX-License-Identifier: BSD-3-Clause
"""What is running now, as server-sent events: a new one whenever something has changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ...store.status_files import running
from ..run_index import RunIndex

EVERY_S = 1.0
MAX_STREAM_S = 3600.0
"""After an hour the browser asks again by itself."""


def state(library: RunIndex) -> dict[str, Any]:
    """The processes at work as plain values, and the number of finished runs."""
    work = [
        {
            "pid": w.pid,
            "what": w.what,
            "stages": [{"name": n, "done": d, "total": t} for n, d, t in w.stages],
        }
        for w in running(library.store.root)
    ]
    return {"working": work, "runs": len(library.snapshot().runs)}


def event_stream(library: RunIndex, request: Request) -> Response:
    """The stream of events; with ``?once=1`` only the state of now."""
    once = request.query_params.get("once") == "1"

    async def pieces() -> AsyncIterator[str]:
        said, passed = "", 0.0
        while passed < MAX_STREAM_S:
            now = json.dumps(await asyncio.to_thread(state, library))
            yield f"data: {now}\n\n" if now != said else ": still here\n\n"
            if once or await request.is_disconnected():
                return
            said = now
            await asyncio.sleep(EVERY_S)
            passed += EVERY_S

    return StreamingResponse(pieces(), media_type="text/event-stream", headers={"cache-control": "no-store"})
