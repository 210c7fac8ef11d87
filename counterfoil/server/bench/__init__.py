"""`counterfoil bench`: how fast this is, each figure beside its reference, measured in turns in the same run.

One module measures one thing, `figures` and `rounds` hold the statistics and the turns, `table` and `plot` show the
result. Whatever is opened here lives in temporary folders that are removed at the end.
"""
