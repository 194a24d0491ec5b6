# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint serve``: browse a store."""

from __future__ import annotations

import contextlib
from pathlib import Path

import typer

from ...core.errors import InputError
from ..common import open_store_for_reading, print_status


def serve(
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    port: int = typer.Option(8765, "--port", min=0, max=65535, help="Port to listen on; 0 takes a free one."),
    host: str = typer.Option(
        "127.0.0.1", "--host", help="Address to listen on; an address that others can reach needs --token."
    ),
    token: str = typer.Option(
        None, "--token", envvar="TIEPOINT_TOKEN", help="Access token; default $TIEPOINT_TOKEN."
    ),
    public_url: str = typer.Option(
        None,
        "--public-url",
        help="Address at which a reverse proxy publishes the pages, such as https://lab.example.org/tiepoint.",
    ),
    user_header: str = typer.Option(
        None, "--user-header", help="Header in which the proxy names the user that it authenticated."
    ),
    data: list[Path] = typer.Option(
        None, "--data", help="Folder to search for datasets that were moved; may be repeated."
    ),
) -> None:
    """Show the store in a browser: leaderboards, comparisons of two methods, scenes and single failures.

    The server opens the store read-only and listens on this machine only, unless --host is set.

    Example: `tiepoint serve --store tiepoint-demo/store`
    """
    try:
        from ...serve.app import serve as serve_store
    except ModuleNotFoundError as e:
        raise InputError(f"serve: the package {e.name!r} is missing; pip install 'tiepoint[serve]'") from e

    with contextlib.suppress(KeyboardInterrupt), open_store_for_reading(store) as opened:
        serve_store(
            opened,
            host=host,
            port=port,
            token=token,
            public_url=public_url,
            user_header=user_header,
            data=data or (),
            said=print_status,
        )
