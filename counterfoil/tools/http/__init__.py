"""Tools that are HTTP requests: what they are (`spec`), and the one guarded client that sends them."""
