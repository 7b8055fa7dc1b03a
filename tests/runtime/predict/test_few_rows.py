"""A call for few rows answers with the bits of the reference, or leaves it to the general way."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oblique_forests import oblique
from row_answers import DTYPES, VERBS, answers_to, drawn_rows, grown, quiet, same
from strategies import AXIS, EQUAL, KERNEL, SET, examples, forests, raw_scores, rows

from bitvec.core import structure
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves, LinearTerms
from bitvec.core.node_tests import Kind, axis_aligned, set_bits
from bitvec.core.output import Aggregate, Output, PostTransform, SoftmaxSum
from bitvec.core.source import Source
from bitvec.errors import InputError
from bitvec.runtime.predict.cpu import choice, numpy_loops
from bitvec.runtime.predict.cpu.few_rows import forest_rows, masks, set_masks, set_rows
from bitvec.runtime.predict.cpu.few_rows.direct_walks import DirectWalks
from bitvec.runtime.predict.cpu.few_rows.masks import Masks
from bitvec.runtime.predict.cpu.few_rows.path_walks import PathWalks
from bitvec.runtime.predict.cpu.few_rows.walks import Walks
from bitvec.runtime.predict.cpu.leaves import leaf_vectors
from bitvec.runtime.predict.cpu.target import vectors
from bitvec.runtime.predict.cpu.traversal import keyed, paths, single
from bitvec.runtime.predict.predictor import compile

KEYED = {"kinds": (AXIS, SET, EQUAL, KERNEL), "linear": False}
SUMS = (Aggregate.SUM, Aggregate.MEAN)


def layouts_of(forest, dtype):
    """Every layout that can hold a forest."""
    made = []
    if set_rows.unsupported_reason(forest) is None:
        made.append(Walks(forest, dtype, leaf_vectors.pack(forest)))
    if masks.unsupported_reason(forest) is None:
        wide = min(dtype.itemsize, forest.dtype.itemsize) == 8
        made += [Masks(forest, dtype, bits) for bits in ((32, 64) if wide else (32,))]
    if single.unsupported_reason(forest) is None:
        made.append(DirectWalks(forest, dtype))
    if paths.unsupported_reason(forest) is None:
        made.append(PathWalks(forest, dtype))
    return made


def rows_of(forest, layout=None, dtype=None):
    """Calls for a forest, by one layout if it is given."""
    batch = (choice.choose(forest),) * 2
    few = forest_rows.FewRows(forest, batch, lambda name: choice.pack(name, forest), always=True)
    if layout is not None:
        few._sums = leaf_vectors.pack(forest)
        few._layouts[dtype] = layout
    return few


def is_served(output, raw):
    """Whether a link of these scores must not be left to others."""
    scaled = np.abs(raw) * max(output.parameter, 1 / output.parameter)
    return bool(np.all(scaled < 80)) and output.post_transform is not PostTransform.PROBIT


def check(forest, X):
    expected = answers_to(forest, X)
    for layout in layouts_of(forest, X.dtype):
        few = rows_of(forest, layout, X.dtype)
        for verb in expected:
            got = few.call(verb).answer(X)
            if got is None:
                assert not is_served(forest.output, expected["raw"]), (layout.name, verb)
            else:
                same(got, expected[verb])


@examples(40)
@given(st.data(), st.sampled_from(DTYPES))
def test_every_method_and_layout_has_the_bits_of_the_reference(data, dtype):
    forest = data.draw(forests(**KEYED, aggregates=SUMS))
    link = data.draw(st.sampled_from(list(PostTransform)))
    if data.draw(st.booleans()):
        forest = replace(forest, output=replace(forest.output, post_transform=link))
    check(forest, np.ascontiguousarray(quiet(data.draw(rows(forest, max_rows=9)).astype, dtype)))


@examples(40)
@given(st.data(), st.sampled_from(DTYPES), st.sampled_from(sorted(choice.BITVECTOR)))
def test_batches_by_binned_columns_have_the_bits_of_the_reference(data, dtype, kernel):
    forest = data.draw(forests(**KEYED, aggregates=SUMS))
    link = data.draw(st.sampled_from(list(PostTransform)))
    if data.draw(st.booleans()):
        forest = replace(forest, output=replace(forest.output, post_transform=link))
    if choice.unsupported_reason(kernel, forest) is not None:
        return
    X = np.ascontiguousarray(quiet(data.draw(rows(forest, max_rows=9)).astype, dtype))
    X = np.tile(X, (data.draw(st.sampled_from([1, 17, 70])), 1))
    expected = answers_to(forest, X)
    batch = (choice.Choice(kernel, "", 1.0),) * 2
    few = forest_rows.FewRows(forest, batch, cache(lambda name: choice.pack(name, forest)))
    few.most_rows = lambda layout: 0
    for verb in set(expected) - {"exit_leaves", "apply"}:
        got = few.call(verb).answer(X)
        if got is None:
            served = len(X) and forest.tests.n_nodes and is_served(forest.output, expected["raw"])
            assert not served, verb
        else:
            same(got, expected[verb])


def test_a_small_batch_is_not_run_by_the_kernel_of_large_ones():
    forest = grown(3, 9, 5)
    batch = choice.Choice("deep", "", 1.0), choice.Choice("chain", "", 1.0)
    few = forest_rows.FewRows(forest, batch, cache(lambda name: choice.pack(name, forest)))
    few.most_rows = lambda layout: 0
    X = np.random.default_rng(0).normal(size=(400, 5)).astype(np.float32)
    assert few.call("raw").answer(X[:10]) is None
    same(few.call("raw").answer(X), compile(forest, engine="reference").raw(X))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("compared", DTYPES)
@pytest.mark.parametrize("n_leaves", [4, 33, 100])
@pytest.mark.parametrize("n_features", [1, 70])
def test_trees_of_every_width_and_columns_of_many_registers(dtype, compared, n_leaves, n_features):
    classes = (np.array(["no", "yes"]),)
    forest = grown(
        40, n_leaves, n_features, compared, post_transform=PostTransform.SIGMOID, classes=classes
    )
    if n_leaves > 4 and masks.unsupported_reason(forest) is None:
        assert Masks(forest, dtype).fields["turn_of_tree"] is not None
    check(forest, drawn_rows(forest, 9, dtype))


@pytest.mark.parametrize(
    ("refuses", "compared", "dtype"),
    [
        pytest.param(*case, marks=pytest.mark.full if case[0] and case[1] != case[2] else ())
        for case in product([False, True], DTYPES, DTYPES)
    ],
)
def test_a_lone_tree_answers_any_number_of_rows(refuses, compared, dtype):
    classes = (np.array(["no", "maybe"]),)
    forest = grown(1, 90, 7, compared, post_transform=PostTransform.SIGMOID, classes=classes)
    metadata = {"refuses_missing": refuses, "refuses_infinite": refuses}
    forest = replace(forest, source=Source("sklearn", "1.9", "tree", metadata=metadata))
    X = drawn_rows(forest, 12_000, dtype)
    if refuses:
        X = np.nan_to_num(X, posinf=2.0, neginf=-2.0)
        X[5], X[6] = 3e38, -3e38
    assert rows_of(forest).call("predict", finite=refuses).answer(X) is not None
    expected = answers_to(forest, X)
    for n_jobs in (1, 2):
        predictor = compile(forest, n_jobs=n_jobs)
        for n in (1, 15, 17, 64, 65, 130, len(X)):
            for verb in VERBS:
                same(getattr(predictor, verb)(X[:n]), expected[verb][:n])
    for place in (0, 63, 64, len(X) - 1) if refuses else ():
        wrong = X.copy()
        wrong[place, -1] = np.nan
        with pytest.raises(InputError, match="NaN"):
            compile(forest).predict(wrong)


@pytest.mark.parametrize("width", [2, 7, 8, 9, 16, 17, 24, 25, 40])
@pytest.mark.parametrize("dtype", DTYPES)
def test_leaf_vectors_of_every_width_add_up_as_in_the_reference(width, dtype):
    forest = grown(6, 9, 4)
    v = np.random.default_rng(0).normal(size=(forest.n_leaves, width)).astype(dtype)
    output = Output(width, np.dtype(dtype))
    check(replace(forest, leaves=Leaves(v), output=output), drawn_rows(forest, 5, DTYPES[0]))


def with_sets(forest, share, seed=0):
    """A forest of whose nodes a share tests a random set, each of a length and rules of its own."""
    rng = np.random.default_rng(seed)
    tests, n = forest.tests, forest.n_nodes
    is_set = rng.random(n) < share
    codes = [
        np.flatnonzero(rng.random(rng.integers(0, 70)) < 0.5) if each else np.zeros(0, int)
        for each in is_set
    ]
    ptr, words = set_bits(codes)
    return replace(
        forest,
        tests=axis_aligned(
            tests.feature,
            np.where(is_set, 0, tests.b).astype(tests.dtype),
            kind=np.where(is_set, Kind.SET, Kind.MARGIN),
            relation=tests.relation,
            missing_rule=rng.integers(0, 3, n),
            missing_right=rng.random(n) < 0.5,
            code_rule=rng.integers(0, 3, n),
            other_right=rng.random(n) < 0.5,
            set_ptr=ptr,
            set_words=words,
        ),
        inputs=Inputs(forest.n_features, missing_sentinel=3.0),
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("compared", DTYPES)
def test_hundreds_of_distinct_sets(dtype, compared):
    forest = with_sets(grown(20, 60, 5, compared), 0.6)
    assert "sets" in keyed.unsupported_reason(forest)
    X = drawn_rows(forest, 60, dtype)
    X[:40] = np.trunc(X[:40] * 32)  # codes, within sets and beyond
    check(forest, X)


@pytest.mark.skipif(vectors() == "none", reason="explicit vectors are turned off")
def test_vectors_of_sets_have_a_bound(monkeypatch):
    forest = with_sets(grown(20, 60, 5), 0.6)
    n_bytes = Masks(forest, DTYPES[0]).fields["set_masks"].nbytes
    assert 0 < n_bytes <= set_masks.most_bytes(forest)
    monkeypatch.setattr(set_masks, "MOST_BYTES", n_bytes - 1)
    assert "codes" in masks.unsupported_reason(forest)
    assert rows_of(forest).info()["layout"] == "walks"


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_key_sends_missing_values_each_nodes_way(dtype):
    # As if they were 0.3; of the second column no key does.
    b = np.array([-1.0, 0.25, 0.5, 2.0], dtype)
    forest = grown(3, 30, 2, dtype)
    rng = np.random.default_rng(0)
    tests = axis_aligned(
        forest.tests.feature,
        rng.choice(b, forest.n_nodes),
        relation=forest.tests.relation,
    )
    right = np.where(tests.feature == 0, tests.b < 0.3, rng.random(forest.n_nodes) < 0.5)
    forest = replace(forest, tests=replace(tests, missing_right=right))
    columns = keyed.key_columns_of(forest, dtype)[1]["column"]
    assert columns.tolist() == [-1, 0, 1, 1]
    check(forest, drawn_rows(forest, 40, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_plain", [0, 1])
def test_trees_whose_levels_share_a_test(dtype, n_plain):
    # Of depths 0 to 6; the last tree has one threshold of its own, or has not.
    rng = np.random.default_rng(0)
    left, right, roots, feature, b = [], [], [], [], []
    depths = [*range(1, 7), 0, *([3] * 20)]
    for depth in depths:
        n, start, leaf = 2**depth - 1, len(left), len(left) + len(roots)
        child = np.arange(1, 2 * n + 1).reshape(-1, 2)
        child = np.where(child < n, start + child, ~(leaf + child - n))
        roots.append(start if n else ~leaf)
        left, right = [*left, *child[:, 0]], [*right, *child[:, 1]]
        level = np.log2(np.arange(1, n + 1)).astype(int)
        feature += list(rng.integers(0, 40, depth)[level]) if depth else []
        b += list((rng.integers(-8, 9, depth) / 4)[level]) if depth else []
    if n_plain:
        b[-1] += 0.25
    B = structure.from_children(np.array(left), np.array(right), np.array(roots))
    forest = Forest(
        axis_aligned(feature, np.array(b, np.float32)),
        B,
        Leaves(rng.normal(size=(B.n_leaves, 1))),
        Output(1, np.dtype(np.float64)),
        Inputs(40),
    )
    if masks.unsupported_reason(forest) is None:
        assert list(Masks(forest, dtype).fields["n_words"] == 0).count(False) == n_plain
    check(forest, drawn_rows(forest, 40, dtype))


def with_output(output):
    """A forest of one leaf, whose raw scores are not asked for."""
    none = np.zeros(0, np.int32)
    B = structure.Bitvectors(none, none, none, np.array([0, 1]))
    leaves = Leaves(np.zeros((1, output.n_outputs), output.dtype))
    return Forest(axis_aligned([], np.zeros(0)), B, leaves, output, Inputs(1))


@st.composite
def outputs_and_scores(draw):
    dtype = draw(st.sampled_from(DTYPES))
    groups = tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    labels = draw(st.sampled_from([np.arange(50, 70), np.array(list("zyxwvutsrqponmlkji"))]))
    from_raw = draw(st.booleans())
    output = Output(
        sum(groups),
        dtype,
        post_transform=draw(st.sampled_from(list(PostTransform))),
        parameter=draw(st.sampled_from([1.0, 0.3, 2.5])),
        softmax_sum=draw(st.sampled_from(list(SoftmaxSum))),
        groups=groups,
        classes=tuple(labels[: max(size, draw(st.integers(1, 2)))] for size in groups),
        labels_from_raw=from_raw,
        tie_to_second=from_raw and draw(st.booleans()),
        boundary=draw(st.sampled_from([None, 0.3])),
    )
    return output, draw(raw_scores(dtype, sum(groups), least=1))


@given(outputs_and_scores())
def test_links_and_labels_of_any_scores_are_those_of_the_reference(drawn):
    output, raw = drawn
    forest = with_output(output)
    predictions = compile(forest, engine="reference")._predictions
    for verb, fill, width in (
        ("scores", predictions.fill_scores, output.n_outputs),
        ("predict", predictions.fill_predictions, None),
        ("predict_proba", None, sum(labels.size for labels in output.classes)),
    ):
        answer = forest_rows.answer_of(forest, verb)
        if verb == "predict":
            shape, dtype = predictions.prediction_shape, predictions.prediction_dtype
        else:
            shape, dtype = (width,), output.dtype
        assert answer.dtype == dtype
        got = np.empty((len(raw), *shape), dtype)
        left = []
        filling = forest_rows.fill_of_scores(forest, verb, 1)
        filling.fill(raw, got, lambda raw, out, left=left: left.append(len(raw)))
        if left:
            plain = output.post_transform is PostTransform.IDENTITY and verb == "scores"
            assert plain or not is_served(output, raw), verb
            continue
        expected = np.empty_like(got)
        if fill is None:
            expected = np.concatenate(quiet(predictions.probabilities, raw), axis=1)
        else:
            quiet(fill, raw, expected)
        same(got, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ufunc", [np.exp, np.log, np.log1p, np.power])
def test_the_loops_of_numpy_are_found_on_this_machine(ufunc, dtype):
    assert numpy_loops.loop(ufunc, dtype) is not None


@pytest.mark.parametrize("link", [PostTransform.SOFTMAX, PostTransform.EXPONENTIAL])
def test_without_the_loops_of_numpy_the_reference_answers(link, monkeypatch):
    monkeypatch.setattr(numpy_loops, "loop", lambda ufunc, dtype: None)
    output = Output(2, np.dtype(np.float64), post_transform=link)
    few = rows_of(with_output(output))
    assert few.call("scores").answer(np.zeros((1, 1))) is None
    assert few.call("raw").answer(np.zeros((1, 1))).tolist() == [[0.0, 0.0]]
    predictor = compile(with_output(output), engine="numba")
    same(predictor.scores(np.zeros((1, 1))), np.full((1, 2), 1 / 2 if "max" in link else 1.0))


# ---- what users hand over


CLASSES = (np.array([7, 9]),)


@pytest.fixture(scope="module")
def model():
    forest = grown(9, 20, 6, post_transform=PostTransform.SIGMOID, classes=CLASSES)
    return compile(forest, engine="numba"), compile(forest, engine="reference")


def read_only(X):
    X.flags.writeable = False
    return X


FORMS = {
    "contiguous": np.array,
    "column-major": np.asfortranarray,
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": lambda X: read_only(X.copy()),
    "unpickled": lambda X: pickle.loads(pickle.dumps(X)),
    "unaligned": lambda X: np.frombuffer(b"x" + X.tobytes(), X.dtype, offset=1).reshape(X.shape),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_rows", [1, 7])
def test_arrays_of_floats_of_any_form_take_the_call(model, form, dtype, n_rows):
    predictor, reference = model
    X = FORMS[form](drawn_rows(predictor.forest, n_rows, dtype))
    for verb in VERBS:
        expected = getattr(reference, verb)(X)
        same(predictor._few[verb](X), expected)
        same(getattr(predictor, verb)(X), expected)
        out = np.full((2 * n_rows, *expected.shape[1:]), 7, expected.dtype)[::2]
        assert getattr(predictor, verb)(X, out=out) is out
        same(out, expected)


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("form", [form for form in FORMS if form != "unaligned"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_batches_of_any_form_take_the_call(form, dtype, n_jobs):
    marks = {"refuses_missing": True, "refuses_infinite": True}
    source = Source("sklearn", "1.9.1", "RandomForestClassifier", metadata=marks)
    forest = grown(19, 30, 6, post_transform=PostTransform.SIGMOID, classes=CLASSES)
    forest = replace(forest, source=source)
    n_rows = 6100  # several blocks and threads, and a block that is not full
    X = np.random.default_rng(3).normal(size=(n_rows, 6)).astype(dtype)
    predictor = compile(forest, engine="numba", n_jobs=n_jobs)
    reference = compile(forest, engine="reference")
    for verb in ("raw", "predict", "predict_proba"):
        expected = getattr(reference, verb)(X)
        same(predictor._few[verb](FORMS[form](X)), expected)
    for refused in (np.nan, np.inf):
        for row, column in ((0, 5), (4095, 2), (n_rows - 1, 0)):
            bad = X.copy()
            bad[row, column] = refused
            assert predictor._few_raw(FORMS[form](bad)) is None


OTHERS = {
    "no rows": np.ones((0, 6)),
    "a list": [[1.0] * 6],
    "whole numbers": np.ones((1, 6), int),
    "half floats": np.ones((1, 6), "f2"),
    "another byte order": np.ones((1, 6), np.dtype(float).newbyteorder()),
    "masked": np.ma.masked_array(np.ones((1, 6))),
    "many that are not aligned": FORMS["unaligned"](np.ones((5000, 6))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_whatever_else_is_a_table_takes_the_general_way(model, name):
    predictor, reference = model
    for verb in VERBS:
        assert predictor._few[verb](OTHERS[name]) is None
        same(getattr(predictor, verb)(OTHERS[name]), getattr(reference, verb)(OTHERS[name]))


def test_what_is_no_table_of_the_columns_is_left_to_who_refuses_it(model):
    for X in (np.ones((1, 5)), np.ones((2, 7)), np.ones(6), np.ones((1, 1, 6)), None, "x", 3.0):
        assert all(model[0]._few[verb](X) is None for verb in VERBS)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_the_source_refuses_are_left_to_who_refuses_them(dtype):
    marks = {"refuses_missing": True, "refuses_infinite": True}
    source = Source("sklearn", "1.9.1", "RandomForestRegressor", metadata=marks)
    forest = replace(grown(2, 5, 3), source=source)
    few = compile(forest, engine="numba")._few_raw
    assert few(np.ones((2, 3), dtype)) is not None
    for value in (np.nan, np.inf, -np.inf, *([1e39] if dtype == np.float64 else [])):
        assert few(np.array([[1, 1, 1], [1, 1, value]], dtype)) is None


def test_several_targets_stand_in_a_list(model):
    classes = (np.array([1, 2]), np.array([3, 4, 5]))
    output = Output(
        4, np.dtype(np.float64), classes=classes, groups=(1, 3), post_transform="softmax"
    )
    forest = replace(grown(3, 6, 2), leaves=Leaves(np.zeros((15, 4))), output=output)
    X = np.ones((2, 2))
    predictor, reference = compile(forest, engine="numba"), compile(forest, engine="reference")
    assert predictor._few_predict_proba(X) is not None
    for got, expected in zip(predictor.predict_proba(X), reference.predict_proba(X), strict=True):
        same(got, expected)
    assert predictor.predict(X).tolist() == reference.predict(X).tolist()


def test_forests_without_a_call_say_why():
    forest = grown(2, 9, 2)
    extreme = replace(forest, output=replace(forest.output, aggregate=Aggregate.MAX))
    assert "summed" in forest_rows.unsupported_reason(extreme)
    n = forest.n_leaves
    terms = LinearTerms(
        np.zeros(n + 1, np.int64), np.zeros(0, np.int32), np.zeros((0, 1), "f4"), forest.leaves.v
    )
    linear = replace(forest, leaves=Leaves(forest.leaves.v, linear=terms))
    assert "linear" in forest_rows.unsupported_reason(linear)
    polytopes = oblique(2, 3, 4, np.float32, rows=2)
    assert "column" in forest_rows.unsupported_reason(polytopes)
    many = with_sets(grown(240, 100, 5), 0.6)
    assert "sets" in forest_rows.unsupported_reason(many)
    assert compile(polytopes, engine="numba")._few_raw(np.ones((1, 4))) is None


def test_threads_that_call_at_once_do_not_meet(model):
    predictor = compile(model[0].forest, engine="numba")
    X = drawn_rows(predictor.forest, 400, np.float32)
    expected = model[1].predict_proba(X)
    with ThreadPoolExecutor(8) as pool:
        for start in range(3):
            parts = [X[k : k + 1 + k % 5] for k in range(start, 390)]
            for k, got in enumerate(pool.map(predictor.predict_proba, parts), start):
                same(got, expected[k : k + 1 + k % 5])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_have_the_call(model, copied):
    X = drawn_rows(model[0].forest, 3, np.float32)
    other = copied(model[0])
    same(other._few_predict_proba(X), model[1].predict_proba(X))
