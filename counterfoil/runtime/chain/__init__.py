"""Runs: which step may go, how a run stands, and who drives it to its end.

`scheduler` and `folding` are pure; `driver` is one wake of one run; `wakes` is who starts it, in this process.
"""
