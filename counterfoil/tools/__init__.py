"""The hands: the base tools, and the adapters that make functions (later HTTP, SQL, files, upstreams) into tools.

Nothing here decides whether a call may run; nothing here reaches an adapter but the runtime.
"""
