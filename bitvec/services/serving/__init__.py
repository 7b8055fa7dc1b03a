"""HTTP service that predicts: two message formats, gathered requests, limits, figures."""
