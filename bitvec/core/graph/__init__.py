"""Computations as plain data, in which ONNX forms are written before a file is made of them."""
