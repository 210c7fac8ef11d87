"""MCP over streamable HTTP on this machine's loopback: both eras of the protocol at one address.

`place` is where we listen, `doorman` who may speak, `edge` what every request passes, `line` one connection, `serving`
the whole from start to orderly end. Only `serve --transport http` imports this, since it brings uvicorn and starlette.
"""
