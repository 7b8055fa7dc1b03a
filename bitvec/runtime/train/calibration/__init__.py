"""Calibration: probabilities of a classifier that agree with how often each class occurs."""
