"""What may be done: contracts, validation, policy, principals, the catalogue and its search.

Pure: nothing in this room reads a clock, a file, a socket or a database, or awaits anything.
"""
