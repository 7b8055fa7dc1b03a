"""Laws of ONNX graphs that prepare their columns: the folded forest answers as onnxruntime does.

Rows stand on every folded threshold and both its neighbours, on every text and on one that is not
known; raw scores and labels are those of the whole graph, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

for library in ("lightgbm", "onnxruntime", "skl2onnx", "sklearn"):
    pytest.importorskip(library)

import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import pandas as pd  # noqa: E402
import skl2onnx  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from skl2onnx.common.data_types import (  # noqa: E402
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor  # noqa: E402
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    Binarizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

import bitvec  # noqa: E402
from bitvec import certification  # noqa: E402
from bitvec.converters.onnx.preparing_operators import KNOWN  # noqa: E402
from bitvec.core.forest import Forest  # noqa: E402
from bitvec.errors import InputError, UnsupportedModelError  # noqa: E402
from tests.models.pipelines import frame, numbers  # noqa: E402

ML, FLOAT, DOUBLE, INT64 = "ai.onnx.ml", TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64
OF_NUMBERS = {
    "standard": StandardScaler,
    "min-max, clipped": lambda: MinMaxScaler((-2, 3), clip=True),
    "max-abs": MaxAbsScaler,
    "robust, binarized": lambda: make_pipeline(RobustScaler(), Binarizer(threshold=0.2)),
    "imputed": lambda: make_pipeline(SimpleImputer(), StandardScaler()),
}
OF_FRAMES = {
    "one-hot": lambda: make_column_transformer(
        (StandardScaler(), ["fare", "rating"]),
        (OneHotEncoder(handle_unknown="ignore"), ["sex", "city"]),
        (OneHotEncoder(handle_unknown="ignore"), ["klass"]),
    ),
    "places": lambda: make_column_transformer(
        (
            OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
            ["sex", "city", "klass"],
        ),
        (MinMaxScaler(), ["fare", "rating"]),
    ),
}
TYPES = {"age": Int64TensorType, "klass": Int64TensorType, "fare": FloatTensorType}
TYPES |= {"rating": FloatTensorType, "sex": StringTensorType, "city": StringTensorType}


def certified(model: Any, X: Any = None) -> Forest:
    """Return the forest of a model, every row of whose certificate is equal."""
    forest = bitvec.convert(model)
    certificate = bitvec.certify(forest, model, X)
    assert certificate.passed, certificate.summary()
    assert certificate.max_ulp == 0
    assert certificate.coverage == 1
    return forest


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("steps", OF_NUMBERS)
def test_pipelines_of_skl2onnx_answer_as_in_onnxruntime(steps: str) -> None:
    X, y = numbers("float32", missing=steps == "imputed")
    kind = (RandomForestClassifier, RandomForestRegressor)[len(steps) % 2]
    pipeline = make_pipeline(OF_NUMBERS[steps](), kind(3, max_depth=5, random_state=0)).fit(X, y)
    model = skl2onnx.to_onnx(pipeline, X[:1])
    forest = certified(model, X)
    assert forest.n_features == X.shape[1]
    assert forest.dtype == np.float32


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("steps", OF_FRAMES)
def test_frames_are_answered_as_in_onnxruntime(steps: str) -> None:
    X, y = frame(missing=False)
    X = X[["fare", "rating", "sex", "city", "klass"]]
    X = X.astype({"sex": object, "city": object})
    trees = RandomForestClassifier(3, max_depth=6, random_state=0)
    pipeline = make_pipeline(OF_FRAMES[steps](), trees).fit(X, y)
    types = [(name, TYPES[name]([None, 1])) for name in X]
    model = skl2onnx.to_onnx(pipeline, initial_types=types)
    forest = certified(model, X)
    assert forest.inputs.feature_names == tuple(X)
    assert forest.inputs.categories is not None
    assert forest.inputs.categories[3] == ("bonn", "lima", "oslo", "paris", "rome")
    strange = X.assign(city="a city that nobody knows")
    session = certification.oracle_of(model)
    assert session.of_frame is not None
    np.testing.assert_array_equal(
        bitvec.compile(forest).raw(strange), session.of_frame.raw(strange)
    )
    with pytest.raises(InputError, match=r"column 'city'"):
        bitvec.compile(forest).predict(X.assign(city=np.nan))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_pipelines_with_trees_of_onnxmltools_answer_as_in_onnxruntime(library: str) -> None:
    pytest.importorskip(library)
    pytest.importorskip("onnxmltools")
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
    from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

    from tests.models.pipelines import TREES

    X, y = numbers("float32")
    pipeline = make_pipeline(StandardScaler(), TREES[library]()).fit(X, y)
    convert = {"xgboost": convert_xgboost, "lightgbm": convert_lightgbm}[library]
    skl2onnx.update_registered_converter(
        type(pipeline[-1]),
        f"Own{library}",
        calculate_linear_classifier_output_shapes,
        convert,
        options={"nocl": [True, False], "zipmap": [True, False, "columns"]},
    )
    opset = {"": 15, ML: 3}
    certified(skl2onnx.to_onnx(pipeline, X[:1], target_opset=opset), X)


def test_trees_of_float64_columns_that_are_prepared_are_certified() -> None:
    X, y = numbers("float64")
    model = make_pipeline(StandardScaler(), RandomForestClassifier(3, max_depth=3, random_state=0))
    columns = [("x", DoubleTensorType([None, X.shape[1]]))]
    fitted = model.fit(np.nan_to_num(X), y)
    made = skl2onnx.to_onnx(fitted, initial_types=columns, options={"zipmap": False})
    certified(made)


def drawn(
    steps: list[Any],
    inputs: dict[str, tuple[int, int]],
    read: str,
    n_columns: int,
    **constants: Any,
) -> onnx.ModelProto:
    """Return a graph of these operators before three trees of random thresholds near 0."""
    rng, n = np.random.default_rng(3), n_columns
    nodes = {key: [] for key in ("treeids", "nodeids", "featureids", "modes", "values")}
    true, false = [], []
    for tree in range(3):
        for node in range(7):
            leaf = node > 2
            nodes["treeids"].append(tree)
            nodes["nodeids"].append(node)
            nodes["featureids"].append(0 if leaf else int((tree * 3 + node) % n))
            nodes["modes"].append("LEAF" if leaf else ("BRANCH_LEQ", "BRANCH_GT")[tree % 2])
            nodes["values"].append(0.0 if leaf else float(np.float32(rng.normal() / 2)))
            true.append(0 if leaf else 2 * node + 1)
            false.append(0 if leaf else 2 * node + 2)
    trees = helper.make_node(
        "TreeEnsembleRegressor",
        [read],
        ["scores"],
        domain=ML,
        **{f"nodes_{key}": values for key, values in nodes.items()},
        nodes_truenodeids=true,
        nodes_falsenodeids=false,
        target_treeids=[t for t in range(3) for _ in range(4)],
        target_nodeids=[3, 4, 5, 6] * 3,
        target_ids=[0] * 12,
        target_weights=rng.normal(size=12).astype(np.float32).tolist(),
        n_targets=1,
    )
    graph = helper.make_graph(
        [*steps, trees],
        "prepared",
        [helper.make_tensor_value_info(k, kind, [None, w]) for k, (kind, w) in inputs.items()],
        [helper.make_tensor_value_info("scores", FLOAT, [None, 1])],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def ml(kind: str, inputs: list[str], output: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, [output], domain=ML, **attributes)


def std(kind: str, inputs: list[str], output: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, [output], **attributes)


X3, F = {"x": (FLOAT, 3)}, np.float32
MIRROR = {"offset": [0.3, -2.0, 1e-3], "scale": [-1.7, 0.1, -300.0]}
GRAPHS: dict[str, Any] = {
    "a scaler that mirrors": (
        [ml("Scaler", ["x"], "z", **MIRROR)],
        X3,
        3,
        {},
    ),
    "a scaler of float64": ([ml("Scaler", ["x"], "z", **MIRROR)], {"x": (DOUBLE, 3)}, 3, {}),
    "a scaler of whole numbers": ([ml("Scaler", ["x"], "z", **MIRROR)], {"x": (INT64, 3)}, 3, {}),
    "arithmetic": (
        [
            std("Sub", ["c", "x"], "a"),
            std("Div", ["a", "d"], "b"),
            std("Mul", ["m", "b"], "e"),
            std("Add", ["e", "x0"], "z"),
        ],
        X3,
        3,
        {
            "c": np.array([1.3, 2.1, -0.7], F),
            "d": F([-3.1]),
            "m": F([[0.3, -0.7, 1.9]]),
            "x0": F([0.1]),
        },
    ),
    "clipped and filled in": (
        [
            ml(
                "Imputer",
                ["x"],
                "a",
                imputed_value_floats=[0.25],
                replaced_value_float=float("nan"),
            ),
            std("Clip", ["a", "low", "high"], "z"),
        ],
        X3,
        3,
        {"low": F(-0.5), "high": F(0.5)},
    ),
    "clipped above and clipped below": (
        [
            std("Clip", ["x", "", "high"], "a"),
            std("Clip", ["x", "low"], "b"),
            std("Concat", ["a", "b"], "z", axis=1),
        ],
        X3,
        6,
        {"low": F(-0.3), "high": F(-0.2)},
    ),
    "casts": (
        [
            std("Cast", ["x"], "a", to=FLOAT),
            std("Mul", ["a", "ten"], "b"),
            std("Cast", ["b"], "c", to=INT64),
            std("Cast", ["c"], "d", to=FLOAT),
            std("Div", ["d", "ten"], "e"),
            std("Cast", ["e"], "f", to=TensorProto.BOOL),
            std("Cast", ["f"], "g", to=FLOAT),
            std("Concat", ["e", "g"], "z", axis=1),
        ],
        {"x": (DOUBLE, 2)},
        4,
        {"ten": F([10])},
    ),
    "chosen columns of two inputs": (
        [
            std("Cast", ["y"], "y_float", to=FLOAT),
            ml("FeatureVectorizer", ["x", "y_float"], "a", inputdimensions=[3, 1]),
            ml("ArrayFeatureExtractor", ["a", "which"], "b"),
            std("Gather", ["x", "which"], "c", axis=1),
            std("Concat", ["b", "c"], "z", axis=-1),
        ],
        {"x": (FLOAT, 3), "y": (INT64, 1)},
        4,
        {"which": np.array([2, 0])},
    ),
    "numbers encoded": (
        [
            ml("OneHotEncoder", ["x"], "a", cats_int64s=[-1, 0, 2], zeros=1),
            std("Flatten", ["a"], "b"),
            ml("LabelEncoder", ["x"], "c", keys_int64s=[0, 1], values_floats=[0.3, -1.0]),
            std("Concat", ["b", "c"], "z", axis=1),
        ],
        {"x": (INT64, 1)},
        4,
        {},
    ),
    "texts encoded, others refused": (
        [
            ml("OneHotEncoder", ["x"], "a", cats_strings=["a", "b", "c"], zeros=0),
            std("Reshape", ["a", "shape"], "b"),
            ml("LabelEncoder", ["y"], "c", keys_floats=[0.5, float("nan")], values_floats=[0.1, 1]),
            std("Concat", ["b", "c"], "z", axis=1),
        ],
        {"x": (TensorProto.STRING, 1), "y": (FLOAT, 1)},
        4,
        {"shape": np.array([-1, 3])},
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_every_operator_answers_as_in_onnxruntime(name: str) -> None:
    steps, inputs, n_columns, constants = GRAPHS[name]
    certified(drawn(steps, inputs, "z", n_columns, **constants))


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_key_nan_of_labels_is_found_where_onnxruntime_finds_it(version: int) -> None:
    labels = {"keys_floats": [0.0, float("nan")], "values_floats": [0.0, 9.0]}
    encoder = ml("LabelEncoder", ["x"], "z", **labels, default_float=-9.0)
    model = drawn([encoder], {"x": (FLOAT, 1)}, "z", 1)
    model.opset_import[1].version = version
    X = np.array([[np.nan], [0.0], [1.0]], F)
    asked = onnxruntime.InferenceSession(model.SerializeToString())
    found = bitvec.compile(certified(model)).predict(X)
    assert np.array_equal(found, asked.run(None, {"x": X})[0][:, 0])


def test_numbers_that_a_whole_number_of_32_bits_does_not_hold_are_refused() -> None:
    steps = [
        std("Cast", ["x"], "a", to=TensorProto.INT32),
        std("Cast", ["a"], "b", to=FLOAT),
        std("Add", ["b", "half"], "z"),
    ]
    model = drawn(steps, {"x": (FLOAT, 1)}, "z", 1, half=F([0.5]))
    predictor = bitvec.compile(bitvec.convert(model))
    greatest = np.nextafter(F(2**31), F(0))
    predictor.predict([[greatest], [-greatest]])
    with pytest.raises(InputError, match="must hold numbers of"):
        predictor.predict(np.array([[2.0**31]], F))


def test_rows_outside_what_the_graph_takes_are_refused() -> None:
    steps, inputs, n_columns, constants = GRAPHS["texts encoded, others refused"]
    forest = bitvec.convert(drawn(steps, inputs, "z", n_columns, **constants))
    rows = pd.DataFrame({"x": ["a", "d"], "y": [0.5, np.nan]})
    predictor = bitvec.compile(forest)
    assert predictor.predict(rows[:1]).shape == (1,)
    with pytest.raises(InputError, match=r"column 'x'"):
        predictor.predict(rows)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([ml("Normalizer", ["x"], "z", norm="L2")], r"'ai.onnx.ml:Normalizer'.* norm of several"),
        ([std("MatMul", ["x", "w"], "z")], r"'MatMul'.*mixes columns"),
        ([std("Mul", ["x", "x"], "z")], r"'Mul'.*two columns"),
        ([std("Sqrt", ["x"], "z")], r"'Sqrt'.*known operators: ArrayFeatureExtractor"),
        ([ml("Scaler", ["x"], "z", offset=[0.0], scale=[0.0])], r"factors not 0"),
        (
            [
                ml("Binarizer", ["x"], "a"),
                std("Cast", ["a"], "b", to=8),
                std("Cast", ["b"], "z", to=1),
            ],
            r"casts ONNX type 1 to 8",
        ),
    ],
)
def test_other_operators_are_refused_by_name(steps: list[Any], words: str) -> None:
    model = drawn(steps, X3, "z", 3, w=np.eye(3, dtype=F))
    with pytest.raises(UnsupportedModelError, match=words):
        bitvec.convert(model)


def test_a_normalizer_of_skl2onnx_is_refused() -> None:
    X, y = numbers("float32")
    pipeline = make_pipeline(Normalizer(), RandomForestClassifier(2, random_state=0)).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="Normalizer"):
        bitvec.convert(skl2onnx.to_onnx(pipeline, X[:1]))
    assert "Normalizer" not in KNOWN
