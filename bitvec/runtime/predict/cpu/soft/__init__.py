"""Soft prediction: forests whose nodes decide under a prediction kernel."""
