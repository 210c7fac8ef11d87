"""What was done: events, state, attempts, leases, the hash chain and migrations. The only room with SQL.

It knows nothing of contracts, policies or MCP: whoever writes here hands over plain values.
"""
