"""Programs for environments of other libraries: they import NumPy and that library only."""
