"""Estimators that grow native trees."""
