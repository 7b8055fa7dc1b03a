"""Laws of .skops files: the plain data of a file converts to the forest of the model itself."""

from __future__ import annotations

import io
import json
import pickle
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.datasets as data
from proof_laws import some_in_full
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import bitvec
from bitvec.converters.sklearn.oracle import oracle_of
from bitvec.converters.sklearn.read import convert
from bitvec.errors import (
    BitvecError,
    FileFormatError,
    InvalidForestError,
    MissingLibraryError,
    UnsupportedModelError,
)
from bitvec.verify.certificates.digest import forest_digest
from tests.models.sklearn import MODELS, sample, trained

skops_io = pytest.importorskip("skops.io")

IRIS, Y = data.load_iris(return_X_y=True)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Train in one thread: on shared cores the threads of small fits only wait for each other."""
    with threadpool_limits(1, user_api="openmp"):
        yield


@pytest.mark.parametrize("name", some_in_full([(name,) for name in MODELS], one_in=96))
def test_a_file_converts_to_the_forest_of_the_model(name: str, tmp_path: Path) -> None:
    model = trained(name)
    skops_io.dump(model, tmp_path / "model.skops")
    forest = convert(tmp_path / "model.skops")
    assert forest_digest(forest) == forest_digest(convert(model))
    assert forest.source.version == version("scikit-learn")
    rows = sample(MODELS[name]).X[:150]
    assert bitvec.certify(forest, tmp_path / "model.skops", rows).passed


def test_a_file_is_converted_without_skops_and_scikit_learn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.skops"
    skops_io.dump(trained("GradientBoostingClassifier"), path)
    for module in ("skops", "skops.io", "sklearn"):
        monkeypatch.setitem(sys.modules, module, None)
    assert convert(path).n_trees == 21
    with pytest.raises(MissingLibraryError, match=r'pip install "bitvec-trees\[sklearn\]"'):
        oracle_of(path)


def test_a_pickle_under_another_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(FileFormatError, match="must be a skops file"):
        convert(path)


def test_another_estimator_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    skops_io.dump(DummyClassifier().fit(IRIS, Y), path)
    with pytest.raises(UnsupportedModelError, match="got DummyClassifier"):
        convert(path)


class Stranger:
    pass


def test_objects_of_other_packages_are_refused_and_not_built(tmp_path: Path) -> None:
    model = DecisionTreeClassifier().fit(IRIS, Y)
    model.extra = Stranger()
    skops_io.dump(model, tmp_path / "model.skops")
    with pytest.raises(UnsupportedModelError, match="Stranger"):
        convert(tmp_path / "model.skops")


def test_a_file_begins_at_the_scores_of_the_version_that_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    init = DummyClassifier(strategy="most_frequent")
    skops_io.dump(GradientBoostingClassifier(init=init, n_estimators=2).fit(IRIS, Y > 0), path)
    starts = {}
    for release in ("1.5.2", "1.7.1", "1.8.0", "1.10.0"):

        def of_release(
            schema: dict[str, Any], parts: dict[str, bytes], said: str = release
        ) -> None:
            attributes(schema)["_sklearn_version"] |= {"content": json.dumps(said), "__id__": -1}

        starts[release] = float(convert(rewritten(path, of_release)).output.base_score[0])
    # 1.7 keeps probabilities 2**-23 from 0 and 1, 1.8 keeps them 2**-52 away.
    assert starts["1.5.2"] == starts["1.7.1"] == pytest.approx(np.log(2**23 - 1))
    assert starts["1.8.0"] == starts["1.10.0"] == pytest.approx(np.log(2**52 - 1))

    def of_none(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
        del attributes(schema)["_sklearn_version"]

    with pytest.raises(UnsupportedModelError, match="which version of scikit-learn"):
        convert(rewritten(path, of_none))


# Damage.


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> Path:
    """Write the parts of an archive again, changed."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(parts.pop("schema.json"))
    change(schema, parts)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", json.dumps(schema))
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def attributes(schema: dict[str, Any]) -> dict[str, Any]:
    return schema["content"]["content"]


def tree_state(schema: dict[str, Any]) -> dict[str, Any]:
    return attributes(schema)["tree_"]["content"]["content"]


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def no_part(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
    parts.clear()


def a_cycle(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
    node = {"__class__": None, "__module__": None, "__loader__": "CachedNode"}
    tree_state(schema)["nodes"] = node | {"__id__": attributes(schema)["tree_"]["__id__"]}


def too_deep(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
    node = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": []}
    for _ in range(100):
        node = {**node, "content": [node]}
    attributes(schema)["extra"] = node


def a_huge_shape(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
    name = tree_state(schema)["values"]["file"]
    parts[name] = parts[name].replace(b"1, 3)", b"1, 9)", 1)


def values_of_float32(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
    parts[tree_state(schema)["values"]["file"]] = npy(np.zeros((17, 1, 3), np.float32))


def pickled_values(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
    parts[tree_state(schema)["values"]["file"]] = npy(np.array([{}], dtype=object))


def nodes_without_fields(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
    parts[tree_state(schema)["nodes"]["file"]] = npy(np.zeros(17))


def a_tree_of_no_kind(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
    attributes(schema)["tree_"]["__reduce__"]["args"]["content"].pop()


def labels_of_no_kind(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
    attributes(schema)["classes_"] = attributes(schema)["tree_"]


def a_newer_protocol(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
    schema["protocol"] = 3


def a_list_for_attributes(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
    schema["content"]["content"] = []


DAMAGE = [
    no_part,
    a_cycle,
    too_deep,
    a_huge_shape,
    values_of_float32,
    pickled_values,
    nodes_without_fields,
    a_tree_of_no_kind,
    labels_of_no_kind,
    a_newer_protocol,
    a_list_for_attributes,
]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda change: change.__name__)
def test_a_damaged_file_is_refused_in_one_sentence(
    damage: Callable[[dict[str, Any], dict[str, bytes]], None], tmp_path: Path
) -> None:
    path = tmp_path / "model.skops"
    model = DecisionTreeClassifier(random_state=0).fit(IRIS, Y)
    assert model.tree_.node_count == 17
    skops_io.dump(model, path)
    for reading in (convert, oracle_of):
        with pytest.raises((FileFormatError, InvalidForestError, UnsupportedModelError)) as caught:
            reading(rewritten(path, damage))
        assert str(caught.value).count(". ") == 0


def test_no_schema_and_no_json_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    deep = "[" * 200_000
    for schema in ("{}", "[", deep, "[]", '{"__loader__": "TreeNode", "protocol": 2}'):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("schema.json", schema)
        with pytest.raises(FileFormatError, match="must be a sound skops file"):
            convert(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.json", "{}")
    with pytest.raises(FileFormatError, match="without a schema"):
        convert(path)


def test_a_file_that_unpacks_to_an_absurd_size_is_refused(tmp_path: Path) -> None:
    from bitvec.converters.sklearn.skops_schema import LEAST_BUDGET

    path = tmp_path / "bomb.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", "{}")
        archive.writestr("zeros.npy", bytes(LEAST_BUDGET + 1))
    with pytest.raises(FileFormatError, match="unpack to at most"):
        convert(path)


def test_objects_that_stand_in_many_places_are_paid_for_in_each(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    skops_io.dump(RandomForestClassifier(2, random_state=0).fit(IRIS, Y), path)

    def doubled(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
        members = attributes(schema)["estimators_"]
        for level in range(1, 40):
            again = {"__id__": level, "__class__": "list", "__module__": "builtins"}
            members = again | {
                "__loader__": "ListNode",
                "content": [members, {"__id__": level - 1}],
            }
            members["content"][0]["__id__"] = level - 1
        attributes(schema)["estimators_"] = members

    with pytest.raises(FileFormatError, match="unpack to at most"):
        convert(rewritten(path, doubled))


def test_a_flipped_byte_or_a_cut_is_refused_or_converts_to_a_sound_forest(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    skops_io.dump(trained("HistGradientBoostingClassifier, codes"), path)
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    rng = np.random.default_rng(0)
    sentences = []
    for _ in range(150):
        content = whole.copy()
        content[rng.integers(len(content), size=rng.integers(1, 4))] = rng.integers(256)
        path.write_bytes(content[: rng.integers(len(content) // 2, 2 * len(content))].tobytes())
        try:
            convert(path)
        except BitvecError as error:
            sentences.append(str(error))
    assert len(sentences) > 100
    assert all(sentence.count(". ") == 0 for sentence in sentences)


def test_an_edited_array_is_refused_or_converts_to_a_sound_forest(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    skops_io.dump(trained("HistGradientBoostingClassifier, codes"), path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)

    def edited(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
        # The checksum of the archive is right again: only the content is wrong.
        name = sorted(parts)[rng.integers(len(parts))]
        content = bytearray(parts[name])
        for at in rng.integers(len(content), size=3):
            content[at] = rng.integers(256)
        parts[name] = bytes(content)

    converted = 0
    for _ in range(150):
        path.write_bytes(whole)
        try:
            forest = convert(rewritten(path, edited))
        except BitvecError:
            continue
        converted += 1
        assert bitvec.compile(forest, engine="reference").raw(IRIS[:3]).shape == (3, 3)
    assert 0 < converted < 150
