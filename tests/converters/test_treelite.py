"""Laws of the treelite conversion: GTIL, treelite's own inference, answers bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proof_laws import some_in_full
from sklearn.ensemble import RandomForestClassifier

from bitvec import certify
from bitvec.core import reference, transforms
from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.errors import FileFormatError, InputError, InvalidForestError, UnsupportedModelError

treelite = pytest.importorskip("treelite")

from bitvec.converters.category_sets import SET_WORDS_LIMIT  # noqa: E402
from bitvec.converters.treelite.oracle import oracle_of  # noqa: E402
from bitvec.converters.treelite.read import convert  # noqa: E402
from tests.models import samples  # noqa: E402
from tests.models import sklearn as models_of_sklearn  # noqa: E402
from tests.models.treelite import (  # noqa: E402
    IMPORTED,
    MODELS,
    OPERATORS,
    build,
    imported,
    stump,
    trained,
)


def rows_where_trees_decide(forest: Forest, X: np.ndarray) -> np.ndarray:
    """Rows of X, and copies with one value at a threshold, an ulp beside it, or special."""
    X = np.asarray(X, forest.dtype)[:90]
    rng = np.random.default_rng(0)
    inf, tiny = forest.dtype.type(np.inf), np.finfo(forest.dtype).smallest_subnormal
    parts = [X]
    with np.errstate(over="ignore"):  # beyond the largest finite threshold lies infinity
        above, below = np.nextafter(forest.tests.b, inf), np.nextafter(forest.tests.b, -inf)
    for node in rng.permutation(forest.n_nodes)[:40]:
        values = [forest.tests.b[node], above[node], below[node], np.nan, 0.0, -0.0, tiny, -tiny]
        block = np.repeat(X[rng.integers(len(X), size=1)], len(values), axis=0)
        block[:, forest.tests.feature[node]] = values
        parts.append(block)
    rows = np.concatenate(parts)
    parts = [rows]
    for special in (np.nan, np.inf, -np.inf):
        parts.append(np.where(rng.random(rows.shape) < 0.2, forest.dtype.type(special), rows))
    return np.concatenate(parts)


def assert_equal_to_gtil(model: treelite.Model, X: np.ndarray) -> Forest:
    forest, source = convert(model), oracle_of(model)
    rows = rows_where_trees_decide(forest, X)
    exits = reference.exit_leaf_traversal(forest, rows)
    own = forest.source.leaf_id[exits + forest.bitvectors.leaf_ptr[:-1]]
    np.testing.assert_array_equal(own, source.leaf_ids(rows))
    raw, want = reference.accumulate(forest, rows, exits), source.raw(rows)
    assert raw.dtype == want.dtype == forest.dtype
    np.testing.assert_array_equal(raw, want)
    return forest


def assert_outputs_equal_gtil(model: treelite.Model, X: np.ndarray, *, rtol: float) -> None:
    forest = convert(model)
    X = np.asarray(X, forest.dtype)
    got = transforms.transform(forest.output, reference.raw(forest, X))
    want = treelite.gtil.predict(model, X, nthread=1).reshape(len(X), -1)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)


def assert_certified(model: treelite.Model) -> None:
    """A certificate passes, of all parts but a softmax that GTIL computes in float32."""
    forest = convert(model)
    certificate = certify(forest, model)
    assert certificate.passed, certificate.summary()
    assert certificate.coverage == 1
    softmax = forest.output.post_transform is PostTransform.SOFTMAX
    left_out = softmax and forest.dtype == np.float64
    told = {"predictions", "transformed scores"}
    if model.get_header_accessor().get_field("postprocessor") == "max_index":
        told = {"labels"}
    assert bool(told & set(certificate.parts)) != left_out


def special(dtype: str) -> st.SearchStrategy[float]:
    width = int(dtype[-2:])
    floats = st.floats(allow_nan=False, width=width)
    return st.one_of(st.sampled_from([0.0, -0.0, 1.0, np.inf, -np.inf, 1e-40, -1e-40]), floats)


@st.composite
def trees(draw: st.DrawFn, dtype: str, width: int) -> list[dict]:
    """A tree of every operator, of category lists, of scalar leaves or of leaf vectors."""
    nodes: list[dict] = [{}]
    values = st.floats(-1e3, 1e3, width=32)
    leaf = values if width == 1 else st.lists(values, min_size=width, max_size=width)
    for _ in range(draw(st.integers(0, 9))):
        open_nodes = [key for key, node in enumerate(nodes) if not node]
        at = draw(st.sampled_from(open_nodes))
        test = {
            "feature_id": draw(st.integers(0, 2)),
            "default_left": draw(st.booleans()),
            "left_child_key": len(nodes),
            "right_child_key": len(nodes) + 1,
        }
        if draw(st.integers(0, 3)) == 0:
            test["category_list"] = draw(st.lists(st.integers(0, 70), max_size=6))
            test["category_list_right_child"] = draw(st.booleans())
        else:
            threshold = draw(special(dtype))
            test["threshold"] = float(np.dtype(dtype).type(threshold))
            test["opname"] = draw(st.sampled_from(OPERATORS))
        nodes[at] = test
        nodes += [{}, {}]
    return [node or {"leaf": draw(leaf)} for node in nodes]


@st.composite
def models(draw: st.DrawFn) -> treelite.Model:
    """Every layout of targets, classes and leaf vectors, in both dtypes, summed or averaged."""
    dtype = draw(st.sampled_from(["float32", "float64"]))
    num_class = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    n_trees = draw(st.integers(1, 4))
    all_targets, all_classes = draw(st.booleans()), draw(st.booleans())
    target, class_id = [], []
    for _ in range(n_trees):
        target.append(-1 if all_targets else draw(st.integers(0, len(num_class) - 1)))
        room = min(num_class) if all_targets else num_class[target[-1]]
        class_id.append(-1 if all_classes else draw(st.integers(0, room - 1)))
    width = (len(num_class) if all_targets else 1) * (max(num_class) if all_classes else 1)
    # A vector of one value is stored as a scalar, which GTIL takes for one named output only.
    if width == 1:
        target, class_id = [max(t, 0) for t in target], [max(c, 0) for c in class_id]
    # Half of the models, about, have a tree for each output; others have no average.
    answered = {
        (t, c)
        for tree_target, tree_class in zip(target, class_id, strict=True)
        for t in (range(len(num_class)) if tree_target < 0 else [tree_target])
        for c in (range(num_class[t]) if tree_class < 0 else [tree_class])
    }
    average = len(answered) == sum(num_class) and draw(st.booleans())
    # Bases of float64 beside trees of float32 included.
    base = st.floats(-10, 10)
    size = len(num_class) * max(num_class)
    return build(
        [draw(trees(dtype, width)) for _ in range(n_trees)],
        dtype=dtype,
        num_class=num_class,
        target=target,
        class_id=class_id,
        average=average,
        base_scores=draw(st.lists(base, min_size=size, max_size=size)),
    )


CODES = [0, 0.5, 1, 1.99, 2, 2.5, 31, 32, 33, 64, 70, 71, 1e6, 2.0**24, 2.0**24 + 2, 2.0**32, 1e30]
CODES += [-0.0, -1e-40, -0.5, -0.99, -1, -1.5, -32]


@given(model=models())
def test_every_built_model_equals_gtil(model: treelite.Model) -> None:
    rng = np.random.default_rng(0)
    X = rng.choice([*CODES, np.nan], size=(60, 3))
    assert_equal_to_gtil(model, X)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("default_left", [False, True])
@pytest.mark.parametrize("opname", OPERATORS)
def test_each_operator_sends_a_true_test_left(opname: str, default_left: bool, dtype: str) -> None:
    for threshold in (0.0, -0.0, 0.1, 1e-40, np.inf, -np.inf):
        model = build(
            [stump(threshold=threshold, opname=opname, default_left=default_left)], dtype=dtype
        )
        assert_equal_to_gtil(model, np.arange(-3.0, 3.0, 0.1).reshape(-1, 3))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("right_child", [False, True])
@pytest.mark.parametrize("default_left", [False, True])
def test_category_codes_follow_gtil(right_child: bool, default_left: bool, dtype: str) -> None:
    """Negative, fractional, missing, unseen and unrepresentably large values included."""
    for codes in ([0], [0, 2], [1], [2, 31, 32, 64], [], [2**24], [5, 2**24 + 2], [3, 3, 1]):
        test = {"category_list": codes, "category_list_right_child": right_child}
        model = build([stump(default_left=default_left, **test)], dtype=dtype)
        X = np.zeros((len(CODES) + len(codes), 3))
        X[:, 0] = [*CODES, *codes]
        assert_equal_to_gtil(model, X)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("right_child", [False, True])
def test_category_zero_is_matched_from_zero_up_to_one_and_by_nothing_negative(
    right_child: bool, dtype: str
) -> None:
    test = {"category_list": [0, 2], "category_list_right_child": right_child}
    model = build([stump(**test)], dtype=dtype)
    X = np.zeros((8, 3))
    X[:, 0] = [0.0, -0.0, 0.5, 2.7, -0.5, -1e-40, 1.0, 3.0]
    forest = assert_equal_to_gtil(model, X)
    exits = reference.exit_leaves(forest, X)[:, 0]
    assert exits.tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


def test_codes_that_ask_for_absurd_memory_are_refused() -> None:
    test = {"category_list": [2**32 - 1], "category_list_right_child": True}
    with pytest.raises(UnsupportedModelError, match="category sets must take at most"):
        convert(build([stump(**test)]))
    assert convert(build([stump(**test)], dtype="float32")).tests.set_words.size == 0
    assert SET_WORDS_LIMIT < 2**32 // 32


@pytest.mark.parametrize("name", some_in_full([(name,) for name in MODELS], one_in=2))
def test_built_models_equal_gtil_and_are_certified(name: str) -> None:
    model, about = trained(name), MODELS[name]
    rng = np.random.default_rng(0)
    forest = assert_equal_to_gtil(model, rng.choice([*CODES, np.nan], (60, 4)))
    assert_certified(model)
    if about.postprocessor != "max_index" and len(set(about.num_class)) == 1:
        # GTIL's softmax computes in float32; the others differ in the last places of the dtype.
        narrow = about.postprocessor == "softmax" or forest.dtype == np.float32
        X = rng.normal(size=(50, 4))
        assert_outputs_equal_gtil(model, X, rtol=1e-6 if narrow else 1e-14)


FROM = [(library, name) for library, names in IMPORTED.items() for name in names]


@pytest.mark.parametrize(("library", "name"), some_in_full(FROM, one_in=2))
def test_imported_models_equal_gtil_and_are_certified(library: str, name: str) -> None:
    pytest.importorskip(library)
    model, X = imported(library, name), samples.small().X
    codes = samples.of_codes(samples.small())[:60]
    forest = assert_equal_to_gtil(model, np.concatenate([X[:30], codes]))
    assert_certified(model)
    if len(set(forest.output.groups)) == 1:
        # GTIL's softmax computes in float32, and exponentials differ in their last places.
        assert_outputs_equal_gtil(model, X, rtol=1e-6 if library == "xgboost" else 2e-7)


@pytest.mark.parametrize("name", ["RandomForestClassifier", "ExtraTreesClassifier, bool labels"])
def test_an_imported_forest_predicts_the_labels_of_its_estimator(name: str) -> None:
    estimator, X = models_of_sklearn.trained(name), np.nan_to_num(samples.small().X)
    forest = convert(imported("sklearn", name))
    number = transforms.predictions(forest.output, reference.raw(forest, X))
    np.testing.assert_array_equal(estimator.classes_[number], estimator.predict(X))


def test_labels_are_class_numbers_and_margins_without_transform_stay_margins() -> None:
    def classes(**options: object) -> object:
        return convert(build([stump()], **options)).output.classes

    assert classes(task="kRegressor") is None
    assert classes(task="kLearningToRank") is None
    assert classes(task="kBinaryClf", postprocessor="identity") is None
    assert classes(task="kBinaryClf", postprocessor="sigmoid")[0].tolist() == [0, 1]
    assert classes(task="kBinaryClf", average=True)[0].tolist() == [0, 1]
    several = build([stump()] * 3, task="kMultiClf", num_class=(3,), class_id=[0, 1, 2])
    assert convert(several).output.classes[0].tolist() == [0, 1, 2]


def test_single_leaf_trees_and_statistics_are_kept() -> None:
    forest = convert(imported("sklearn", "RandomForestRegressor"))
    assert forest.source.node_cover[0] == len(samples.small().y)
    assert forest.source.gain[0] == forest.source.gain[: forest[0].n_nodes].max() > 0
    alone = build([[{"leaf": 1.5}], stump(), [{"leaf": -0.0}]])
    assert assert_equal_to_gtil(alone, np.zeros((4, 3))).n_leaves == 4
    assert convert(alone).source.gain is None


def test_base_scores_are_added_in_float64_and_rounded_once() -> None:
    # 0.1 is no float32: added after rounding it, sums near 2**-24 and 1 would differ.
    values = [1.0, 2.0**-24, 3.0, -0.1]
    trees = [stump(left, right) for left in values for right in values]
    for base in (0.1, 1e-9, 1e9 + 0.3, -1.0):
        for tree in trees:
            model = build([tree], dtype="float32", base_scores=[base])
            forest = assert_equal_to_gtil(model, np.array([[0.0, 0, 0], [1, 0, 0]]))
            assert forest.output.base_score.dtype == np.dtype(
                np.float32 if float(np.float32(base)) == base else np.float64
            )


def test_each_output_is_averaged_over_the_trees_that_answer_for_it() -> None:
    one = [stump(0.1 * k, 0.7 * k) for k in range(1, 7)]
    options = {"average": True, "task": "kMultiClf", "dtype": "float32"}
    by_class = build(one[:4], num_class=(3,), class_id=[0, 1, 1, 2], **options)
    by_target = build(
        one, num_class=(2, 1), target=[0, 1, 0, 0, 1, 1], class_id=[0, 0, 1, 1, 0, 0], **options
    )
    X = np.array([[0.0, 0, 0], [1, 0, 0]])
    assert assert_equal_to_gtil(by_class, X).output.divisor.tolist() == [1, 2, 1]
    assert assert_equal_to_gtil(by_target, X).output.divisor.tolist() == [1, 2, 3]


def test_a_model_without_trees_answers_its_base_scores() -> None:
    model = build([], dtype="float32", base_scores=[0.1], target=[], class_id=[])
    forest = convert(model)
    assert (forest.n_trees, forest.n_nodes) == (0, 0)
    X = np.zeros((2, 3), np.float32)
    np.testing.assert_array_equal(reference.raw(forest, X), oracle_of(model).raw(X))


# Checkpoint files.


CHECKPOINTS = {
    **{f"built, {name}": lambda name=name: trained(name) for name in MODELS},
    "statistics": lambda: imported("sklearn", "RandomForestClassifier"),
}


@pytest.mark.parametrize("make", CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_a_checkpoint_gives_the_forest_of_its_model(make: object, tmp_path: Path) -> None:
    model = make()
    path = tmp_path / "model.tl"
    model.serialize(path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, model.num_feature)) * 3
    forest = convert(model)
    for file in (path, str(path)):
        again = convert(file)
        np.testing.assert_array_equal(reference.raw(again, X), reference.raw(forest, X))
        assert again.source.metadata == forest.source.metadata
        assert again.source.version == forest.source.version == treelite.__version__
    from_file, from_model = oracle_of(path), oracle_of(model)
    np.testing.assert_array_equal(from_file.raw(X), from_model.raw(X))
    np.testing.assert_array_equal(from_file.leaf_ids(X), from_model.leaf_ids(X))


def test_a_checkpoint_cut_short_is_refused_at_every_length(tmp_path: Path) -> None:
    whole = build([stump(category_list=[0, 40], category_list_right_child=True)]).serialize_bytes()
    path = tmp_path / "model.tl"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(
            FileFormatError, match=r"model\.tl: .*(must be whole|must be of version)"
        ):
            convert(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(FileFormatError, match="1 bytes more"):
        convert(path)


def patched(at: int, value: bytes) -> bytes:
    data = build([stump()], dtype="float32", base_scores=[0.1]).serialize_bytes()
    return data[:at] + value + data[at + len(value) :]


HUGE = (2**63).to_bytes(8, "little")
# The first fields: 3 x int32 of the version, 2 types of 1 byte, 8 bytes of the number of trees,
# int32 of the features, 1 byte each of task and average, int32 of the targets, count of num_class.
HOSTILE = {
    "another kind of file": (b"PK\x03\x04" + bytes(60), "no checkpoint at all"),
    "an old version": (patched(0, b"\x03"), "version 4, got 3"),
    "unknown types": (patched(12, b"\x09\x09"), "must both be float32 or float64"),
    "two types": (patched(12, b"\x03\x02"), "must both be float32 or float64"),
    "more trees than bytes": (patched(14, HUGE), "must be whole"),
    "fewer trees": (patched(14, bytes(8)), "after its 0 trees"),
    "a boolean of 7": (patched(27, b"\x07"), "`average_tree_output` must hold 0 and 1"),
    "an array of 2**63": (patched(32, HUGE), "ends inside `num_class`"),
}


@pytest.mark.parametrize(("content", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_checkpoints_are_refused_in_one_sentence_that_names_them(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "hostile.treelite"
    path.write_bytes(content)
    for reading in (convert, oracle_of):
        with pytest.raises(FileFormatError, match=message) as caught:
            reading(path)
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)


def test_an_absent_checkpoint_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        convert(tmp_path / "absent.tl")


# What is refused.


def test_leaf_vectors_of_another_shape_than_stated_are_refused() -> None:
    model = build([stump([1.0, 2], [3.0, 4])], num_class=(2,), class_id=[-1])
    model.get_header_accessor().set_field("leaf_vector_shape", np.array([2, 1], np.int32))
    with pytest.raises(UnsupportedModelError, match="leaf_vector_shape"):
        convert(model)


def test_vectors_that_are_mostly_padding_are_refused_before_memory_is_asked_for() -> None:
    """One vector of many classes beside many leaves of one class each."""
    n = 2000
    model = build([stump()] * n, num_class=(n,), class_id=[*range(n)])
    header, first = model.get_header_accessor(), model.get_tree_accessor(0)
    header.set_field("class_id", np.array([-1, *range(1, n)], np.int32))
    header.set_field("leaf_vector_shape", np.array([1, n], np.int32))
    first.set_field("leaf_vector", np.zeros(2 * n))
    first.set_field("leaf_vector_begin", np.array([0, 0, n], np.uint64))
    first.set_field("leaf_vector_end", np.array([0, n, 2 * n], np.uint64))
    with pytest.raises(UnsupportedModelError, match="about as many as stored"):
        convert(model)


def test_an_average_without_a_tree_for_each_output_is_refused() -> None:
    model = build([stump()] * 2, average=True, num_class=(3,), class_id=[0, 2], task="kMultiClf")
    with pytest.raises(UnsupportedModelError, match="none for 1 of 3"):
        convert(model)


def test_an_unknown_postprocessor_is_refused() -> None:
    model = build([stump()])
    model.get_header_accessor().set_field("postprocessor", "cube")
    with pytest.raises(UnsupportedModelError, match="'cube'"):
        convert(model)


@pytest.mark.parametrize("thing", [None, b"model", RandomForestClassifier()])
def test_what_is_no_treelite_model_is_refused(thing: object) -> None:
    with pytest.raises(UnsupportedModelError, match=r"treelite\.Model"):
        convert(thing)


DAMAGE = {
    "child beyond the tree": ("cleft", np.array([10**6, -1, -1], np.int32)),
    "child below zero": ("cright", np.array([-7, -1, -1], np.int32)),
    "cycle": ("cleft", np.array([0, -1, -1], np.int32)),
    "leaf with a child": ("cleft", np.array([1, 0, -1], np.int32)),
    "feature beyond X": ("split_index", np.array([3, -1, -1], np.int32)),
    "feature below zero": ("split_index", np.array([-1, -1, -1], np.int32)),
    "unknown comparison": ("cmp", np.array([9, 0, 0], np.int8)),
    "unknown node type": ("node_type", np.array([7, 0, 0], np.int8)),
    "short field": ("threshold", np.array([0.5])),
    "threshold NaN": ("threshold", np.array([np.nan, 0, 0])),
    "vector past its end": ("leaf_vector_end", np.array([0, 9, 0], np.uint64)),
    "category list past its end": ("category_list_end", np.array([2**40, 0, 0], np.uint64)),
    "vector that ends first": ("leaf_vector_begin", np.array([0, 1, 0], np.uint64)),
}


@pytest.mark.parametrize(("field", "value"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_trees_are_refused_before_anything_follows_them(
    field: str, value: np.ndarray
) -> None:
    model = build([stump(), stump()])
    model.get_tree_accessor(1).set_field(field, value)
    for reading in (convert, oracle_of):
        with pytest.raises(InvalidForestError):
            reading(model)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("target_id", np.array([3], np.int32)),
        ("target_id", np.array([0, 0], np.int32)),
        ("class_id", np.array([1], np.int32)),
        ("class_id", np.array([-2], np.int32)),
        ("num_class", np.array([0], np.int32)),
        ("num_class", np.array([2**31 - 1], np.int32)),
        ("base_scores", np.array([], np.float64)),
        ("leaf_vector_shape", np.array([1], np.int32)),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(field: str, value: np.ndarray) -> None:
    model = build([stump()])
    model.get_header_accessor().set_field(field, value)
    with pytest.raises(InvalidForestError):
        convert(model)


def test_rows_of_another_width_are_refused_before_gtil_reads_them() -> None:
    source = oracle_of(build([stump()]))
    for answer in (source.raw, source.leaf_ids):
        for width in (2, 4):
            with pytest.raises(InputError, match="must have 3 features"):
                answer(np.zeros((5, width)))
