"""Programs of torch.export: certified if bitvec wrote them, refused if they could run code."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace

import pytest

import bitvec
from bitvec.core.forest import Forest
from bitvec.errors import FileFormatError, UnsupportedModelError

torch = pytest.importorskip("torch")

from bitvec.converters.torch_program.plain_archive import plain_program  # noqa: E402

STUMP = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [-1.0, 2.0])


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return bitvec.export(STUMP, tmp_path_factory.mktemp("programs") / "stump.pt2")


@pytest.mark.full
def test_a_program_is_certified_in_torch_and_another_forests_fails(program):
    certificate = bitvec.certify(STUMP, program, progress=False)
    assert certificate.passed
    assert (certificate.grade, certificate.oracle) == ("two-sided", "torch")
    other = replace(STUMP, leaves=replace(STUMP.leaves, v=-STUMP.leaves.v))
    assert not bitvec.certify(other, program, progress=False).passed


def test_a_program_is_no_model(program):
    with pytest.raises(UnsupportedModelError, match="a model must show its trees, got a program"):
        bitvec.convert(program)


def rewritten(program, path, part, change):
    """Write the archive with `change` made to the JSON of one part, and return its path."""
    with zipfile.ZipFile(program) as given, zipfile.ZipFile(path, "w") as made:
        for name in given.namelist():
            data = given.read(name)
            if name.endswith(part):
                value = json.loads(data)
                change(value)
                data = json.dumps(value).encode()
            made.writestr(name, data)
    return path


def first_node(model):
    return model["graph_module"]["graph"]["nodes"][0]


@pytest.mark.parametrize(
    ("part", "change", "what"),
    [
        ("model.json", lambda m: first_node(m).update(target="torch.os.system"), "torch.os.system"),
        (
            "model.json",
            lambda m: first_node(m).update(target="torch.ops.aten.from_file.default"),
            "from_file",
        ),
        ("model.json", lambda m: first_node(m).update(name="x): import os #"), "import os"),
        ("model.json", lambda m: m.update(guards_code=["__import__('os')"]), "guards"),
        ("model.json", lambda m: m.update(expr_str="__import__('os').getcwd()"), "__import__"),
        ("model.json", lambda m: m.update(in_spec='[1, {"type": "os.x"}]'), "os.x"),
        ("model.json", lambda m: m.update(as_operator="torch.os.system"), "as_operator"),
        (
            "weights_config.json",
            lambda w: next(iter(w["config"].values())).update(use_pickle=True),
            "a pickle",
        ),
        ("constants_config.json", lambda c: c["config"].update(a={}), "constants"),
    ],
)
def test_what_torch_could_run_as_code_is_refused(program, tmp_path, part, change, what):
    path = rewritten(program, tmp_path / "changed.pt2", part, change)
    with pytest.raises(
        UnsupportedModelError, match="as torch can run what a program holds"
    ) as caught:
        plain_program(path)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_example_inputs_are_never_unpickled(program, tmp_path):
    path = rewritten(program, tmp_path / "same.pt2", "model.json", lambda m: None)
    with zipfile.ZipFile(path) as archive:
        assert any(name.endswith("sample_inputs/model.pt") for name in archive.namelist())
    data, facts = plain_program(path)
    path.write_bytes(data)
    with zipfile.ZipFile(path) as archive:
        assert archive.read("archive/data/sample_inputs/model.pt") == b""
    assert facts["n_features"] == 2


def test_strangers_programs_and_parts_are_refused_through_certify(program, tmp_path):
    own = torch.export.export(torch.nn.Linear(2, 1), (torch.zeros(2, 2),))
    torch.export.save(own, tmp_path / "linear.pt2")
    with pytest.raises(UnsupportedModelError, match="no single part extra/bitvec"):
        bitvec.certify(STUMP, tmp_path / "linear.pt2", progress=False)
    path = rewritten(program, tmp_path / "more.pt2", "model.json", lambda m: None)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("archive/data/aotinductor/model/model.so", b"")
    with pytest.raises(UnsupportedModelError, match="the part 'data/aotinductor"):
        plain_program(path)


def test_a_damaged_program_is_refused(program, tmp_path):
    path = rewritten(program, tmp_path / "less.pt2", "model.json", lambda m: None)
    path.write_bytes(path.read_bytes().replace(b"index_select", b"index_selecx"))
    with pytest.raises(FileFormatError, match="damaged"):
        plain_program(path)
