"""Ensembles of forests that combine answers behind their links: voting, calibration, bagging."""
