"""Laws of names in the C header: of the model, of columns, of classes and of categories."""

from __future__ import annotations

import ast
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.output import Output
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.export.c import to_c


@pytest.mark.parametrize("name", ["", "Model", "_x", "1st", "a-b", "a b", "ä", "x" * 42, "a\n", 3])
def test_a_name_that_c_cannot_take_is_refused(stump, name):
    with pytest.raises(InputError, match="`name` must begin with a letter"):
        to_c(stump, name=name)


@pytest.mark.parametrize("name", ["int", "double", "class", "template", "co_await"])
def test_a_word_that_c_or_cxx_keeps_for_itself_is_refused(stump, name):
    with pytest.raises(InputError, match=f"`name` must be no word of C or C\\+\\+, got '{name}'"):
        to_c(stump, name=name)


def test_names_of_columns_and_classes_cannot_leave_their_place(gcc, case_of, stump):
    words = ('*/ int a; /*"\\', '??/\n"; int b; @raw $x /\\', "ü\u202e*/")
    output = Output(3, np.dtype(np.float64), classes=(np.array(words),))
    forest = replace(
        stump,
        leaves=Leaves(np.eye(3)[:2]),
        output=output,
        inputs=Inputs(2, feature_names=words[:2]),
    )
    case = case_of(forest, np.zeros((1, 2)))
    assert case.source.text.isascii()
    gcc([case], "-std=c99")
    start = case.source.text.index("names[3] = {") + len("names[3] = {")
    listed = case.source.text[start:].split("};")[0].strip().rstrip(",").split(",\n")
    assert tuple(ast.literal_eval(f"b{line.strip()}").decode() for line in listed) == words


def classifier(stump: Forest, *names: str) -> Forest:
    output = Output(len(names), np.dtype(np.float64), classes=(np.array(names),))
    return replace(stump, leaves=Leaves(np.eye(len(names))[:2]), output=output)


def test_a_zero_byte_in_a_class_does_not_end_its_name(tmp_path, stump):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    to_c(classifier(stump, "a\x00b", "c")).save(tmp_path / "model.h")
    main = '#include <stdio.h>\n#include "model.h"\nint main(void)\n'
    main += "{ puts(model_class_name(0)); return 0; }\n"
    (tmp_path / "main.c").write_text(main)
    subprocess.run(
        ["gcc", "-std=c99", "-o", str(tmp_path / "main"), str(tmp_path / "main.c"), "-lm"],
        check=True,
    )
    assert subprocess.check_output([str(tmp_path / "main")], text=True) == "a\\0b\n"


def test_a_class_name_longer_than_a_text_of_c99_is_refused(gcc, case_of, stump):
    gcc([case_of(classifier(stump, "ü" * 2047, "b"), np.zeros((1, 2)))], "-std=c99")
    with pytest.raises(UnsupportedModelError, match="at most 4095 bytes in UTF-8, got 4096"):
        to_c(classifier(stump, "ü" * 2048, "b"))


def test_categories_are_named_in_the_header(gcc, case_of, stump):
    books = (("Bern", "Lima", "*/ Oslo", "ü", "bern"), None)
    inputs = Inputs(2, feature_names=("home city", "age"), categories=books)
    case = case_of(replace(stump, inputs=inputs), np.zeros((1, 2)), name="m")
    text = case.source.text
    gcc([case], "-std=c99")
    for code, label in enumerate(("Bern", "Lima", "* / Oslo", "\\xfc", "bern")):
        assert f"     {code}  {label}\n" in text or f"     {code}  {label} */" in text
    assert "#define M_HOME_CITY_LIMA 1\n" in text
    assert "#define M_HOME_CITY_OSLO 2\n" in text
    assert "#define M_HOME_CITY_U 3\n" in text
    # Two labels of one name are in the comment alone.
    assert "M_HOME_CITY_BERN" not in text
    assert text.count("#define M_HOME_CITY_") == 3
    bare = replace(stump, inputs=Inputs(2, categories=((3, 5.5, True), None)))
    assert "#define M_X0_3 0\n" in to_c(bare, name="m").text


def test_the_names_of_categories_are_nobody_elses(gcc, case_of, stump):
    # N_FEATURES, H and NO_MATH are names of the header's own.
    names, books = ("n", "no", "N-"), (("features", "trees"), ("math", "x"), ("x", "outputs"))
    forest = Forest.from_matrices([[1.0, 0.0, 0.0]], [0.5], [[0], [1]], [10, 20])
    forest = replace(forest, inputs=Inputs(3, feature_names=names, categories=books))
    case = case_of(forest, np.zeros((1, 3)))
    gcc([case], "-std=c99")
    assert "#define MODEL_N_FEATURES 3\n" in case.source.text
    assert "#define MODEL_NO_X 1\n" in case.source.text
    for absent in ("MODEL_NO_MATH", "MODEL_N_TREES 1\n#define MODEL_N_TREES", "MODEL_N_X"):
        assert f"#define {absent}" not in case.source.text


def test_hashed_categories_are_named_as_hashes(stump):
    inputs = Inputs(2, categories=(("Bern", 12345), None), hashed=(0,))
    text = to_c(replace(stump, inputs=inputs), name="m").text
    assert "#define M_X0_BERN 0\n" in text
    assert "     1  hash 12345" in text
    assert "M_X0_12345" not in text
