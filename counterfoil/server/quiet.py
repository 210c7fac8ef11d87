"""Libraries whose debug messages hold content: bodies of messages, headers of requests, parameters of statements."""

from __future__ import annotations

import logging
from typing import Final

TALKATIVE: Final = ("aiosqlite", "httpcore2", "httpx2", "mcp", "sqlalchemy", "sse_starlette", "uvicorn")


def keep_quiet() -> None:
    """Let these say no more than warnings, whatever the root logger lets through: redaction does not reach them."""
    for name in TALKATIVE:
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.level, logging.WARNING))
