"""ONNX tree ensembles (ai.onnx.ml): written from a Forest, and read into one."""
