"""The demo: an order service of its own process, tools that use it, and the play that drives a real client.

Nothing here is used by anything but `counterfoil demo`, and importing this package loads none of it.
"""
