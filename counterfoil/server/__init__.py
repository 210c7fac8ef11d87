"""Who asks, and how we answer: the MCP surface, transports, configuration, the command line and the demo.

The only room that knows MCP, and the one place where the parts are put together.
"""
