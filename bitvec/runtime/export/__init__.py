"""Exports of a forest: ONNX, C99, the browser, and other libraries' models."""
