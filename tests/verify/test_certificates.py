"""A certificate passes for the same forest and catches every change that a row can show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import AXIS, EQUAL, SET, forests

import bitvec
from bitvec.core import reference, structure, transforms
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import CodeRule, Kind, MissingRule, axis_aligned, set_bits
from bitvec.core.output import Output, PostTransform
from bitvec.core.source import Source
from bitvec.errors import FileFormatError, InputError
from bitvec.verify.certificates import compare, forest_digest, load
from bitvec.verify.oracle import LeafValues, Oracle
from bitvec.verify.probing import probe_rows, trials


def answers(forest: Forest, *, leaves: bool = True, **options) -> Oracle:
    """The literal reference of a forest, as a library that answers."""

    def exits(X):
        return reference.exit_leaf_traversal(forest, reference.columns(forest, X))

    def raw(X):
        return reference.accumulate(forest, X, exits(X))

    return Oracle("reference", "1", raw, exits if leaves else None, **options)


def full_answers(forest: Forest) -> Oracle:
    """The same with predictions, leaf values and sizes, as a library that shows everything."""
    plain, B = answers(forest), forest.bitvectors
    tree = np.repeat(np.arange(B.n_trees), np.diff(B.leaf_ptr))
    leaf = np.arange(B.n_leaves) - B.leaf_ptr[tree]
    return replace(
        plain,
        predict=lambda X: transforms.predictions(forest.output, plain.raw(X)),
        scores=lambda X: transforms.transform(forest.output, plain.raw(X)),
        # In an order of its own, as libraries number their nodes.
        leaf_values=lambda: LeafValues(tree[::-1], leaf[::-1], forest.leaves.v[::-1]),
        n_trees=forest.n_trees,
        n_features=forest.n_features,
        n_outputs=forest.n_outputs,
    )


def classifier(labels=("no", "yes")) -> Forest:
    forest = small_forest()
    output = replace(
        forest.output,
        base_score=np.array([-60.0]),
        post_transform=PostTransform.SIGMOID,
        classes=(np.array(labels),),
    )
    return replace(forest, output=output)


def small_forest() -> Forest:
    """Two trees with numeric, set and equal nodes, missing rules, and distinct leaf values."""
    left = np.array([1, ~0, ~1, 4, ~4, ~5])
    right = np.array([2, ~2, ~3, 5, ~6, ~7])
    B, order = structure.arrange(left, right, np.array([0, 3]))
    ptr, words = set_bits([np.array(c, int) for c in ([], [2, 5], [], [], [], [])])
    tests = axis_aligned(
        np.array([0, 1, 2, 0, 2, 1]),
        np.array([0.5, 0.0, 1.5, -1.0, 0.25, 3.0], np.float32),
        kind=np.array([Kind.MARGIN, Kind.SET, Kind.MARGIN, Kind.MARGIN, Kind.MARGIN, Kind.EQUAL]),
        relation=np.array([0, 0, 1, 1, 0, 0]),
        missing_right=np.array([False, True, False, True, False, True]),
        missing_rule=np.array([0, 0, MissingRule.NAN_OR_ZERO, 0, MissingRule.NAN_OR_SENTINEL, 0]),
        set_ptr=ptr,
        set_words=words,
    )
    v = 2.0 ** np.arange(8)[:, None]
    assert np.array_equal(order.node, np.arange(6))
    return Forest(
        tests, B, Leaves(v), Output(1, np.dtype(np.float64)), Inputs(3, missing_sentinel=-999.0)
    )


def mutants(forest: Forest) -> Iterator[tuple[str, int, Forest]]:
    """Every smallest change of every node: what a wrong converter, engine or export would do."""
    tests = forest.tests

    def changed(name: str, node: int, value) -> Forest:
        array = getattr(tests, name).copy()
        array[node] = value
        return replace(forest, tests=replace(tests, **{name: array}))

    for node in range(forest.n_nodes):
        yield (
            "missing direction",
            node,
            changed("missing_right", node, not tests.missing_right[node]),
        )
        if tests.kind[node] == Kind.SET:
            yield "other direction", node, changed("other_right", node, not tests.other_right[node])
            for code_rule in CodeRule:
                if code_rule != tests.code_rule[node]:
                    yield f"rule {code_rule.name}", node, changed("code_rule", node, code_rule)
            for bit in range(32 * int(tests.set_ptr[node + 1] - tests.set_ptr[node])):
                word = int(tests.set_ptr[node]) + bit // 32
                words = tests.set_words.copy()
                words[word] ^= np.uint32(1 << bit % 32)
                yield f"code {bit}", node, replace(forest, tests=replace(tests, set_words=words))
            continue
        for towards in (np.inf, -np.inf):
            with np.errstate(over="ignore"):
                moved = np.nextafter(tests.b[node], tests.dtype.type(towards))
            if np.isfinite(moved):
                yield f"threshold to {towards}", node, changed("b", node, moved)
        for rule in MissingRule:
            if rule != tests.missing_rule[node]:
                yield f"missing {rule.name}", node, changed("missing_rule", node, rule)
        if tests.kind[node] == Kind.MARGIN:
            yield "relation", node, changed("relation", node, 1 - tests.relation[node])
            yield "equal", node, changed("kind", node, Kind.EQUAL)


def grid(forest: Forest) -> np.ndarray:
    """Rows of all combinations of every value at which a test of a column may change."""
    pools = []
    for column in range(forest.n_features):
        b = forest.tests.b[forest.tests.feature == column]
        near = [np.nextafter(b, forest.dtype.type(towards)) for towards in (np.inf, -np.inf)]
        special = [0.0, -0.0, 1e-35, -1e-36, -999.0, np.nan, np.inf, -np.inf, -1.0, -0.5, 2.5, 5.5]
        codes = (
            range(34)
            if (forest.tests.kind[forest.tests.feature == column] == Kind.SET).any()
            else ()
        )
        pools.append(np.concatenate([b, *near, np.array([*special, *codes], forest.dtype)]))
    return np.stack([x.ravel() for x in np.meshgrid(*pools)], axis=1)


@pytest.mark.parametrize("leaves", [True, False])
def test_a_forest_agrees_with_itself(leaves):
    forest = small_forest()
    X = np.random.default_rng(0).normal(size=(20, 3))
    certificate = compare(forest, answers(forest, leaves=leaves), X=X, allow_values_only=True)
    assert certificate.passed
    assert certificate.coverage == 1
    assert certificate.n_rows == 20
    assert certificate.max_ulp == 0
    assert certificate.compared == ("leaf ids and raw scores" if leaves else "raw scores")
    assert any("exposes no leaf ids" in note for note in certificate.exclusions) != leaves
    grade = "two-sided" if leaves else "values only"
    assert certificate.summary().startswith(f"PASSED, {grade}: forest against reference 1")


@pytest.mark.parametrize("leaves", [True, False])
def test_every_smallest_change_of_every_node_is_caught(leaves):
    # All leaf values are distinct powers of two, so raw scores name the leaves.
    forest = small_forest()
    n_mutants = 0
    X = grid(forest)
    expected = answers(forest).leaf_ids(X)
    for what, node, mutant in mutants(forest):
        certificate = compare(mutant, answers(forest, leaves=leaves), allow_values_only=True)
        if np.array_equal(answers(mutant).leaf_ids(X), expected):
            # A value that counts as missing now, and goes where it went before, is no change.
            assert what.startswith("missing"), (what, node)
            assert certificate.passed, (what, node)
            continue
        assert not certificate.passed, (what, node)
        assert certificate.differences, (what, node)
        if leaves:
            tree = int(forest.bitvectors.tree_of_node[node])
            assert {d.place for d in certificate.differences if d.kind == "leaf"} == {tree}
        n_mutants += 1
    assert n_mutants > 60


def test_swapped_leaf_values_are_caught_where_leaf_ids_agree():
    forest = small_forest()
    v = forest.leaves.v.copy()
    v[[1, 2]] = v[[2, 1]]
    certificate = compare(replace(forest, leaves=Leaves(v)), answers(forest))
    assert certificate.n_leaf_mismatches == 0
    assert certificate.n_raw_mismatches > 0
    assert not certificate.passed


@settings(max_examples=12)
@given(
    forests(kinds=(AXIS, SET, EQUAL), max_trees=1, max_leaves=6, linear=False),
    st.integers(0, 2**16),
)
def test_a_change_in_a_drawn_forest_passes_only_if_no_row_shows_it(forest, pick):
    oracle = answers(forest)
    changes = list(mutants(forest))
    # Rows built from the original reveal a change as well as those built from the mutant: if any
    # of them is routed differently, the mutant's own rows must have shown that.
    rows, _ = probe_rows(forest).collect()
    for _, _, mutant in changes[pick % 5 :: max(1, len(changes) // 8)]:
        differs = np.any(answers(mutant).leaf_ids(rows) != oracle.leaf_ids(rows))
        certificate = compare(mutant, oracle)
        assert certificate.coverage == 1
        if differs:
            assert not certificate.passed
            assert certificate.n_leaf_mismatches > 0


def test_the_rows_of_a_difference_reproduce_it():
    forest = small_forest()
    b = forest.tests.b.copy()
    b[3] = np.nextafter(b[3], np.float32(np.inf))
    mutant = replace(forest, tests=replace(forest.tests, b=b))
    certificate = compare(mutant, answers(forest))
    for difference in certificate.differences:
        if difference.kind == "leaf":
            X = np.array([difference.row], np.float32)
            assert answers(forest).leaf_ids(X)[0, difference.place] == difference.expected
            assert answers(mutant).leaf_ids(X)[0, difference.place] == difference.got


def test_a_oracle_says_whether_its_leaf_ids_are_the_sources_or_leaf_numbers():
    forest = small_forest()
    ids = np.arange(8)[::-1] * 10
    forest = replace(forest, source=Source("reference", "0", leaf_id=ids))
    plain = answers(forest)
    ptr = forest.bitvectors.leaf_ptr[:-1]
    numbered = replace(plain, leaf_ids=lambda X: ids[plain.leaf_ids(X) + ptr], ids="source")
    assert compare(forest, numbered).passed
    assert compare(forest, plain).passed
    assert not compare(forest, replace(numbered, ids="leaf number")).passed
    assert not compare(forest, replace(plain, ids="source")).passed
    with pytest.raises(InputError, match="leaf ids"):
        compare(replace(forest, source=None), numbered)


def test_rows_that_the_oracle_does_not_accept_are_never_handed_to_it():
    forest = small_forest()

    def strict(X):
        assert np.isfinite(X).all()
        return answers(forest).raw(X)

    oracle = Oracle("reference", "1", strict, None, accepts_missing=False, accepts_infinite=False)
    X = np.array([[1.0, 2.0, 3.0], [np.nan, 0.0, 0.0], [0.0, np.inf, 0.0]])
    certificate = compare(forest, oracle, X=X, allow_values_only=True)
    assert certificate.passed
    assert (certificate.n_rows, certificate.n_rows_left_out) == (1, 2)
    assert len(certificate.exclusions) == 8


def test_an_inexact_oracle_may_differ_by_rounding_and_no_more():
    forest = small_forest()
    plain = answers(forest, leaves=False, exact=False)
    rounded = replace(plain, raw=lambda X: np.nextafter(plain.raw(X), np.inf))
    certificate = compare(forest, rounded, allow_values_only=True)
    assert certificate.passed
    assert certificate.max_ulp == 1
    assert not compare(forest, replace(rounded, exact=True), allow_values_only=True).passed
    off = replace(plain, raw=lambda X: plain.raw(X) * (1 + 1e-9))
    assert not compare(forest, off, allow_values_only=True).passed
    assert compare(forest, off, allowed_difference=1e-6, allow_values_only=True).passed


def test_reversed_classes_are_caught_in_the_labels_alone(tmp_path):
    forest = classifier()
    wrong = replace(forest, output=replace(forest.output, classes=(np.array(["yes", "no"]),)))
    assert compare(forest, full_answers(forest)).passed
    certificate = compare(wrong, full_answers(forest))
    assert not certificate.passed
    assert certificate.n_label_mismatches == certificate.n_probes
    assert (certificate.n_raw_mismatches, certificate.max_score_ulp) == (0, 0)
    assert {d.kind for d in certificate.differences} == {"label"}
    assert {d.expected for d in certificate.differences} <= {"yes", "no"}
    assert load(certificate.save(tmp_path / "c.json")) == certificate


@pytest.mark.parametrize("suffix", ["sql", "onnx"])
def test_columns_of_other_names_are_caught_in_an_exported_file(tmp_path, suffix):
    forest, other = (
        replace(named, inputs=Inputs(named.n_features, feature_names=names))
        for named in [small_forest()]
        for names in (tuple("abcdefgh"[: named.n_features]), tuple("bacdefgh"[: named.n_features]))
    )
    options = {"dialect": "sqlite"} if suffix == "sql" else {}
    for one, passes in ((forest, True), (other, False)):
        path = bitvec.export(one, tmp_path / f"one.{suffix}", leaves=True, **options)
        certificate = bitvec.certify(forest, path, progress=False)
        assert certificate.passed is passes
        assert passes or "column 0's name 'b'" in certificate.summary()
    if suffix == "onnx":
        onnx = pytest.importorskip("onnx")
        model = onnx.load(path)
        (names,) = (e for e in model.metadata_props if e.key == "bitvec.feature_names.json")
        names.value = '["a"]'
        onnx.save(model, path)
        assert not bitvec.certify(forest, path, progress=False).passed


def test_labels_of_another_kind_are_differences():
    forest = classifier()
    numbered = replace(full_answers(forest), predict=full_answers(classifier((0, 1))).predict)
    certificate = compare(forest, numbered)
    assert certificate.n_label_mismatches == certificate.n_probes
    assert compare(classifier((0, 1)), numbered).passed
    with pytest.raises(InputError, match="labels must have shape"):
        compare(forest, replace(numbered, predict=lambda X: np.zeros((len(X), 2))))


@pytest.mark.parametrize("transform", [t for t in PostTransform if t != PostTransform.IDENTITY])
@pytest.mark.parametrize("make", [classifier, small_forest])
def test_another_post_transform_is_caught_where_raw_scores_agree(make, transform):
    forest = make()
    wrong = replace(forest, output=replace(forest.output, post_transform=transform))
    certificate = compare(wrong, full_answers(forest))
    assert certificate.n_raw_mismatches == 0
    # A softmax of halves is the sigmoid, but for the last bits.
    same = {PostTransform.SOFTMAX_OF_HALVES: PostTransform.SIGMOID}.get(transform, transform)
    assert certificate.passed is (same == forest.output.post_transform)
    assert compare(wrong, full_answers(wrong)).passed


def test_predictions_may_differ_by_eight_ulps_after_an_exponential_and_by_none_without():
    forest = classifier()

    def moved(oracle: Oracle, ulps: int) -> Oracle:
        def predict(X):
            value = oracle.predict(X)
            for _ in range(ulps):
                value = np.nextafter(value, np.inf)
            return value

        return replace(oracle, predict=predict, scores=None)

    smooth = replace(forest, output=replace(forest.output, classes=None))
    for ulps, passes in ((0, True), (8, True), (9, False)):
        certificate = compare(smooth, moved(full_answers(smooth), ulps))
        assert certificate.passed is passes
        assert (certificate.max_score_ulp, certificate.allowed_score_ulp) == (ulps, 8)
    plain = small_forest()
    certificate = compare(plain, moved(full_answers(plain), 1))
    assert not certificate.passed
    assert (certificate.max_score_ulp, certificate.allowed_score_ulp) == (1, 0)


def test_where_sums_may_round_predictions_are_compared_on_rows_of_equal_raw_scores():
    forest = classifier()
    exact = full_answers(forest)

    def shifted(X):
        return np.where(X[:, :1] > 0, np.nextafter(exact.raw(X), np.inf), exact.raw(X))

    def unsure(X):  # a label that is wrong wherever the raw score is
        return np.where(X[:, 0] > 0, "?", exact.predict(X))

    rounded = replace(exact, raw=shifted, predict=unsure, exact=False)
    certificate = compare(forest, rounded)
    assert certificate.n_raw_mismatches > 0
    assert certificate.passed
    n_rows = certificate.n_probes
    assert certificate.n_answered == n_rows - certificate.n_raw_mismatches
    on = f"compared on {certificate.n_answered} of {n_rows} rows"
    for part in ("labels: 0 rows differ", "transformed scores: differ by at most 0 ulp, 8 allowed"):
        assert f"{part}; {on}" in str(certificate)
    # What may differ is no finding.
    assert certificate.differences
    assert "difference:" not in str(certificate)
    assert not compare(forest, replace(rounded, predict=lambda X: np.full(len(X), "?"))).passed


def test_what_no_row_could_show_is_not_said_to_be_compared(tmp_path):
    forest = classifier()
    exact = full_answers(forest)
    moved = replace(exact, raw=lambda X: np.nextafter(exact.raw(X), np.inf), exact=False)
    certificate = compare(forest, moved)
    assert certificate.passed
    assert certificate.n_answered == 0
    assert certificate.compared == "leaf ids, leaf values and raw scores"
    assert "transformed scores and labels were not compared" in str(certificate)
    assert "labels: 0" not in str(certificate)
    assert load(certificate.save(tmp_path / "c.json")) == certificate
    every = compare(forest, exact)
    assert every.n_answered == every.n_probes
    assert "compared on" not in str(every)


def test_a_leaf_value_off_by_one_ulp_is_caught_where_no_sum_shows_it():
    forest = small_forest()
    # Beside 2**60 the leaves' last bits vanish from every sum.
    forest = replace(forest, output=replace(forest.output, base_score=np.array([2.0**60])))
    v = forest.leaves.v.copy()
    v[5] = np.nextafter(v[5], np.inf)
    wrong = replace(forest, leaves=Leaves(v))
    assert compare(wrong, answers(forest)).passed
    assert any("through sums" in note for note in compare(wrong, answers(forest)).exclusions)
    certificate = compare(wrong, full_answers(forest))
    assert (certificate.n_value_mismatches, certificate.n_raw_mismatches) == (1, 0)
    assert not certificate.passed
    assert certificate.differences[0].place == 5
    assert "leaf 5 of the forest" in str(certificate)


def test_a_leaf_that_the_model_does_not_store_is_a_difference():
    forest = small_forest()
    oracle = full_answers(forest)
    stored = oracle.leaf_values()
    for kept in (slice(1, None), slice(0, 0)):
        fewer = replace(
            oracle, leaf_values=lambda kept=kept: LeafValues(*(a[kept] for a in stored))
        )
        certificate = compare(forest, fewer)
        assert certificate.n_value_mismatches == 8 - len(stored.tree[kept])
        assert not certificate.passed
    more = LeafValues(*(np.concatenate([a, a[:1] + 7]) for a in stored))
    assert compare(forest, replace(oracle, leaf_values=lambda: more)).passed
    wide = LeafValues(stored.tree, stored.id, np.zeros((8, 2)))
    with pytest.raises(InputError, match="leaf values must have 1 columns"):
        compare(forest, replace(oracle, leaf_values=lambda: wide))


@pytest.mark.parametrize("name", ["trees", "features", "outputs"])
def test_a_model_of_another_size_is_told_before_it_is_asked(name):
    forest = small_forest()

    def never(*_):
        raise AssertionError("asked")

    oracle = replace(full_answers(forest), raw=never, leaf_ids=never, leaf_values=never)
    own = getattr(forest, f"n_{name}")
    with pytest.raises(InputError, match=rf"as many {name} as the forest, {own}, got {own + 1}"):
        compare(forest, replace(oracle, **{f"n_{name}": own + 1}))


def test_what_a_oracle_notes_and_what_was_not_compared_stand_in_the_certificate():
    forest = classifier()
    certificate = compare(forest, replace(answers(forest), notes=("on one thread",)))
    assert certificate.compared == "leaf ids and raw scores"
    text = str(certificate)
    assert text == certificate.summary()
    for words in ("on one thread", "no labels", "no probabilities", "data frame", "sparse"):
        assert words in text
    full = compare(forest, full_answers(forest))
    assert full.compared == ("leaf ids, leaf values, raw scores, transformed scores and labels")
    assert "no labels" not in str(full)


def test_nan_scores_agree_with_nan_and_with_nothing_else():
    forest = small_forest()
    plain = answers(forest)
    nan = replace(plain, raw=lambda X: np.full_like(plain.raw(X), np.nan))
    assert compare(forest, nan, raw=nan.raw).passed
    certificate = compare(forest, nan)
    assert not certificate.passed
    assert certificate.max_difference == np.inf


def test_an_exit_leaf_out_of_range_is_a_difference_and_no_crash():
    forest = small_forest()
    certificate = compare(
        forest, answers(forest), exits=lambda X: np.full((len(X), 2), 99), raw=answers(forest).raw
    )
    assert certificate.n_leaf_mismatches > 0
    assert certificate.differences[0].got == 99


def test_a_node_that_no_row_was_found_for_fails_the_certificate(tmp_path):
    class Constant:
        n_inputs = n_features = 3

        def __call__(self, X):
            return np.zeros_like(X)

    forest = replace(small_forest(), feature_map=Constant())
    certificate = compare(forest, answers(forest))
    assert certificate.n_leaf_mismatches == 0
    assert certificate.coverage < 1
    assert not certificate.passed
    assert certificate.missed
    assert "not shown: tree 0, node" in certificate.summary()


def test_loading_what_was_saved_gives_the_same_certificate(tmp_path):
    forest = small_forest()
    b = forest.tests.b.copy()
    b[0] = 0.25
    mutant = replace(forest, tests=replace(forest.tests, b=b))
    certificate = compare(mutant, answers(forest), X=np.zeros((2, 3)))
    path = certificate.save(tmp_path / "c.json")
    again = load(path)
    # NaN in the rows of differences is equal to nothing: compare the text.
    assert again.to_json() == certificate.to_json()
    assert again.summary() == certificate.summary()
    assert again.matches(mutant)
    assert not again.matches(forest)
    assert [p.name for p in tmp_path.iterdir()] == ["c.json"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda r: r.pop("coverage") and r.pop("digest"),
        lambda r: r.update(n_nodes=-1),
        lambda r: r.update(n_nodes=True),
        lambda r: r.update(unreachable=[[0]]),
        lambda r: r.update(differences=[{"kind": "leaf"}]),
        lambda r: r.update(version=1),
        lambda r: r.update(format="other"),
        lambda r: r.update(passed=False),
        lambda r: r.update(n_leaf_mismatches=1),
        lambda r: r.update(max_difference="much"),
        lambda r: r.update(exact=1),
        lambda r: r.update(versions=[]),
        lambda r: r.update(coverage=0.5),
        lambda r: r.pop("coverage"),
        lambda r: r.update(n_nodes=r["n_nodes"] + 1),
        lambda r: r.update(n_nodes=r["n_nodes"] - 1),
        lambda r: r.update(n_reachable=5, n_covered=5),
        lambda r: r.update(unreachable=[[0, 1]]),
        lambda r: r.update(missed=[[0, 1, "tie"]]),
        lambda r: r.update(n_trees=0),
        lambda r: r.update(compared="leaf ids"),
        lambda r: r.update(compared="raw scores, leaf ids"),
        lambda r: r.update(max_ulp=1),
        lambda r: r.update(allowed_difference=1.0),
        lambda r: r.update(allowed_score_ulp=1000),
        lambda r: r.update(max_score_ulp=8, allowed_score_ulp=8),
        lambda r: r.update(digest="0"),
        lambda r: r.update(n_rows=3),
        lambda r: r.update(n_answered=r["n_answered"] - 1),
        lambda r: r.pop("n_answered"),
        lambda r: r.update(
            differences=[{"kind": "label", "place": 0, "expected": 1, "got": 0, "row": []}]
        ),
    ],
)
def test_a_damaged_certificate_is_refused(tmp_path, damage):
    path = compare(small_forest(), answers(small_forest())).save(tmp_path / "c.json")
    record = json.loads(path.read_text())
    damage(record)
    path.write_text(json.dumps(record))
    with pytest.raises(FileFormatError, match="must"):
        load(path)


def test_a_directory_or_no_file_is_refused_in_one_sentence(tmp_path):
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(OSError, match="must be a file that can be read"):
            load(path)


def test_saving_keeps_a_link_and_refuses_a_device(tmp_path):
    certificate = compare(small_forest(), answers(small_forest()))
    (tmp_path / "link.json").symlink_to(tmp_path / "target.json")
    certificate.save(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert load(tmp_path / "target.json") == certificate
    with pytest.raises(OSError, match="can be written"):
        certificate.save("/dev/null")


@pytest.mark.parametrize("data", [b"", b"[", b"[" * 100000, b"null", b"\xff\xfe\x00", b"{}"])
def test_what_is_no_certificate_is_refused(tmp_path, data):
    path = tmp_path / "c.json"
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match="certificate"):
        load(path)


def test_a_path_that_cannot_be_written_is_named(tmp_path):
    certificate = compare(small_forest(), answers(small_forest()))
    with pytest.raises(OSError, match="can be written"):
        certificate.save(tmp_path / "absent" / "c.json")


@pytest.mark.parametrize("X", [np.zeros((2, 4)), np.zeros(3), np.array([["a", "b", "c"]])])
def test_rows_of_another_shape_are_refused(X):
    forest = small_forest()
    with pytest.raises(InputError, match="X"):
        compare(forest, answers(forest), X=X)


def test_answers_of_another_shape_are_refused():
    forest = small_forest()
    with pytest.raises(InputError, match="shape"):
        compare(forest, replace(answers(forest), raw=lambda X: np.zeros((len(X), 2))))
    with pytest.raises(InputError, match="shape"):
        compare(forest, answers(forest), exits=lambda X: np.zeros((len(X), 1), int))


@pytest.mark.parametrize("block", [64, 1 << 22])
def test_progress_rises_to_one(monkeypatch, block):
    monkeypatch.setattr(trials, "BLOCK", block)
    steps = []
    compare(small_forest(), answers(small_forest()), progress=steps.append)
    assert steps == sorted(steps)
    assert steps[-1] == 1
    assert len(steps) > 2 or block > 64


def test_a_certificate_says_where_not_every_code_was_shown():
    for code, noted in ((40, False), (1_000_000, True)):
        ptr, words = set_bits([np.array([1, code])])
        tests = axis_aligned([0], np.zeros(1), kind=Kind.SET, set_ptr=ptr, set_words=words)
        B = structure.from_children([~0], [~1], [0])
        forest = Forest(
            tests, B, Leaves(np.arange(2.0)[:, None]), Output(1, np.dtype(np.float64)), Inputs(1)
        )
        certificate = compare(forest, answers(forest))
        assert certificate.passed
        assert ("codes in a row" in certificate.summary()) == noted


def test_the_digest_changes_with_every_part_that_answers_and_not_with_the_source():
    forest = small_forest()
    digest = forest_digest(forest)
    assert forest_digest(replace(forest, source=Source("x", "1"))) == digest
    others = [mutant for _, _, mutant in mutants(forest)]
    others.append(replace(forest, leaves=Leaves(forest.leaves.v + 1)))
    others.append(replace(forest, leaves=Leaves(-forest.leaves.v * 0)))
    others.append(replace(forest, leaves=Leaves(forest.leaves.v * 0)))
    others.append(replace(forest, inputs=Inputs(4, missing_sentinel=-999.0)))
    others.append(replace(forest, inputs=Inputs(3, missing_sentinel=-998.0)))
    others.append(replace(forest, output=replace(forest.output, base_first=True)))
    others.append(replace(forest, output=replace(forest.output, base_score=np.ones(1))))
    digests = [forest_digest(other) for other in others]
    assert len({digest, *digests}) == len(others) + 1


@pytest.mark.parametrize("name", ["\ud800", "a\udcff", "b"])
def test_every_name_has_its_digest(name):
    forest = small_forest()
    named = replace(forest, inputs=Inputs(3, (name, "x", "y"), missing_sentinel=-999.0))
    other = replace(forest, inputs=Inputs(3, (name + "b", "x", "y"), missing_sentinel=-999.0))
    assert len({forest_digest(f) for f in (forest, named, other)}) == 3


def test_numpy_scalars_are_digested_as_the_numbers_that_they_are():
    def digest(*codes):
        inputs = Inputs(3, None, (codes, None, None), missing_sentinel=-999.0)
        return forest_digest(replace(small_forest(), inputs=inputs))

    assert digest(np.float64(0.5), np.str_("a")) == digest(0.5, "a")
    assert len({digest(1), digest(1.0), digest("1"), digest(True)}) == 4


def test_a_forest_of_scikit_learn_is_covered_and_agrees_bit_for_bit():
    datasets = pytest.importorskip("sklearn.datasets")
    from sklearn.ensemble import RandomForestClassifier

    from bitvec.converters.sklearn import oracle, read

    X, y = datasets.load_digits(return_X_y=True)
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    certificate = compare(read.convert(model), oracle.oracle_of(model), X=X)
    assert certificate.passed, certificate.summary()
    assert certificate.coverage == 1
    assert certificate.n_unreachable == 0
    assert (certificate.n_leaf_mismatches, certificate.max_ulp) == (0, 0)
    assert certificate.source_version == certificate.oracle_version


def test_a_booster_of_xgboost_is_compared_down_to_labels_and_stored_leaves():
    xgboost = pytest.importorskip("xgboost")
    from bitvec.converters.xgboost import oracle, read

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    y[X[:, 2] > 1] = 2
    model = xgboost.XGBClassifier(n_estimators=4, max_depth=3).fit(X, y)
    softmax = xgboost.XGBClassifier(n_estimators=4, objective="multi:softmax").fit(X, y)
    two = xgboost.XGBClassifier(n_estimators=4, booster="dart").fit(X, y > 0)
    for each in (model, model.get_booster(), softmax, softmax.get_booster(), two):
        check_every_part(read.convert(each), oracle.oracle_of(each), X)


def test_a_model_of_treelite_is_compared_down_to_labels_and_stored_leaves():
    treelite = pytest.importorskip("treelite")
    datasets = pytest.importorskip("sklearn.datasets")
    from sklearn.ensemble import RandomForestClassifier

    from bitvec.converters.treelite import oracle, read

    X, y = datasets.load_iris(return_X_y=True)
    for labels in (y, y > 0, np.stack([y, y % 2], axis=1)):
        fitted = RandomForestClassifier(4, max_depth=3, random_state=0).fit(X, labels)
        model = treelite.sklearn.import_model(fitted)
        check_every_part(read.convert(model), oracle.oracle_of(model), X)


def test_an_exported_file_is_compared_down_to_labels(tmp_path):
    pytest.importorskip("onnxruntime")
    from bitvec import api, certification

    forest = classifier()
    wrong = replace(forest, output=replace(forest.output, classes=(np.array(["yes", "no"]),)))
    for form in ("tree_ensemble", "tensor"):
        axis = forest_without_special_nodes(forest)
        path = bitvec.export(axis, tmp_path / f"{form}.onnx", form=form)
        certificate = api.certify(axis, path, allow_values_only=True)
        assert certificate.passed, str(certificate)
        assert certificate.compared == "raw scores, transformed scores and labels"
        assert ("one thread" in str(certificate)) == (form == "tree_ensemble")
        assert not api.certify(
            forest_without_special_nodes(wrong), path, allow_values_only=True
        ).passed
        with pytest.raises(InputError, match=r"features as the forest, 3, got 4"):
            api.certify(
                axis,
                certification.oracle_of(bitvec.export(wider(axis), tmp_path / "w.onnx", form=form)),
            )


def forest_without_special_nodes(forest: Forest) -> Forest:
    """The same trees with plain thresholds, which every form holds."""
    tests = axis_aligned(forest.tests.feature, forest.tests.b)
    return replace(forest, tests=tests, inputs=Inputs(3))


def wider(forest: Forest) -> Forest:
    return replace(forest, inputs=Inputs(4))


def check_every_part(forest: Forest, oracle: Oracle, X) -> None:
    """It passes, and no longer so with classes reversed or one leaf moved by an ulp."""
    assert oracle.predict is not None
    certificate = compare(forest, oracle, X=X, allow_values_only=True)
    assert certificate.passed, str(certificate)
    classes = tuple(labels[::-1] for labels in forest.output.classes)
    wrong = replace(forest, output=replace(forest.output, classes=classes))
    certificate = compare(wrong, oracle, X=X)
    assert certificate.n_label_mismatches > 0
    assert not certificate.passed
    v = forest.leaves.v.copy()
    v[-1, 0] = np.nextafter(v[-1, 0], v.dtype.type(np.inf))
    certificate = compare(replace(forest, leaves=replace(forest.leaves, v=v)), oracle, X=X)
    assert certificate.n_value_mismatches == 1
    assert not certificate.passed
