"""What happens next: the one call path, retry, approvals that are waited for, reconcile and recovery.

It is handed adapters and a ledger; it imports no tool, no MCP, no HTTP and no SQL.
"""
