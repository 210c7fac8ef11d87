"""The plan: an immutable validated graph of calls. Its model, references, values, checks and prediction.

Pure: no ledger, no clock, no await. What a plan does once it runs is decided elsewhere.
"""
