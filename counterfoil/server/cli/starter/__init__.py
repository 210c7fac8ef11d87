"""What `counterfoil init` writes: a configuration, and with `--example` tools that run at once.

These files are copied, never imported from here; being part of the package, they are type-checked with it.
"""
