"""Computations as plain data: what the ONNX forms are written as before a file is made of them."""
