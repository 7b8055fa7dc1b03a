"""The protocol of uvicorn that reads requests by httptools, with a limit on their heads.

httptools joins the parts of a header one by one and knows no limit, so that a header of many
megabytes would hold up all other requests. Where it is not installed uvicorn takes h11, which has
such a limit.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

MOST_BYTES: Final = 1 << 16
"""Length of the first line and the headers of a request, as h11 has it."""


def protocol() -> type[asyncio.Protocol] | str:
    """Return what `http` of `uvicorn.Config` takes."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "h11"

    class LimitedHeads(HttpToolsProtocol):
        """Ends a connection whose head goes on for too long."""

        n_bytes: int | None = None  # received since the head began; None outside of a head

        def data_received(self, data: bytes) -> None:
            if self.n_bytes is not None:
                self.n_bytes += len(data)
                if self.n_bytes > MOST_BYTES:
                    if not self.transport.is_closing():
                        self.send_400_response(
                            f"The head of a request must have at most {MOST_BYTES} bytes."
                        )
                    return
            super().data_received(data)

        def on_message_begin(self) -> Any:
            self.n_bytes = 0
            return super().on_message_begin()

        def on_headers_complete(self) -> Any:
            self.n_bytes = None
            return super().on_headers_complete()

    return LimitedHeads
