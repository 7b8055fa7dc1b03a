"""Tables of the papers, by their protocols: `python -m benchmarks.tables kddt`."""
