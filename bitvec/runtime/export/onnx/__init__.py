"""ONNX at run time: the form of standard operators, files, and sessions of onnxruntime."""
