"""Programs in the docs compile without a warning and predict what bitvec predicts."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import bitvec
from bitvec.runtime.export.c import to_c

ROOT = Path(__file__).resolve().parents[4]
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion")


def test_the_documented_program_reads_categories_and_empty_cells(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    lightgbm, pandas = pytest.importorskip("lightgbm"), pytest.importorskip("pandas")
    text = (ROOT / "docs" / "c99.md").read_text(encoding="utf-8")
    program = re.search(r"```c\n(/\* main.c \*/\n.*?)```", text, re.DOTALL)[1]
    towns = ["Bern", "Lima", "Oslo"]
    rows = pandas.DataFrame(
        {
            "city": pandas.Categorical(towns * 70, categories=towns),
            "rooms": [float(i % 7) if i % 11 else np.nan for i in range(210)],
        }
    )
    price = 10 * rows["rooms"].fillna(3) + 30 * (rows["city"] == "Lima")
    model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(rows, price)
    forest = bitvec.convert(model)
    to_c(forest, name="homes").save(tmp_path / "homes.h")
    (tmp_path / "main.c").write_text(program)
    built = tmp_path / "homes"
    command = [compiler, "-std=c99", *WARNINGS, "-o", str(built), str(tmp_path / "main.c"), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    asked = [("Lima", 3), ("Oslo", np.nan), (None, 2), ("Bern", 6.5), ("Lima", 0)]
    frame = pandas.DataFrame(
        {
            "city": pandas.Categorical([city for city, _ in asked], categories=towns),
            "rooms": [float(rooms) for _, rooms in asked],
        }
    )
    cells = "".join(f"{city or ''},{'' if np.isnan(n) else n}\n" for city, n in asked)
    got = subprocess.run([str(built)], input=cells, capture_output=True, text=True, check=True)
    expected = bitvec.compile(forest).predict(frame)
    assert [float(line) for line in got.stdout.split()] == expected.ravel().tolist()
    assert len(set(expected.ravel().tolist())) == len(asked)


def test_the_documented_calls_name_the_class(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    iris = load_iris()
    labels = iris.target_names[iris.target]
    model = RandomForestClassifier(10, max_depth=4, random_state=0).fit(iris.data, labels)
    bitvec.export(bitvec.convert(model), tmp_path / "iris.h", name="iris")
    text = (ROOT / "docs" / "c99.md").read_text(encoding="utf-8")
    include, calls = re.search(r"```c\n(#include \"iris.h\"\n)(.*?)```", text, re.DOTALL).groups()
    main = f"#include <stdio.h>\n{include}int main(void) {{\n{calls}return 0;\n}}\n"
    (tmp_path / "main.c").write_text(main)
    built = tmp_path / "iris"
    command = [compiler, "-std=c99", *WARNINGS, "-o", str(built), str(tmp_path / "main.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    got = subprocess.run([str(built)], capture_output=True, text=True, check=True)
    assert got.stdout.strip() == model.predict([[5.1, 3.5, 1.4, 0.2]])[0]
