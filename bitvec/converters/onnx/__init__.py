"""ONNX tree ensembles (ai.onnx.ml): written from a Forest, and read into one."""

from importlib.util import find_spec

from bitvec.errors import MissingLibraryError

if find_spec("onnx") is None:
    raise MissingLibraryError("onnx", "onnx", "Reading or writing an ONNX model")

from bitvec.converters.onnx.read import convert, oracle_of
from bitvec.converters.onnx.write import to_onnx

__all__ = ["convert", "oracle_of", "to_onnx"]
