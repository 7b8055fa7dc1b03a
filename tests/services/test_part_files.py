"""Files predicted in batches: the same answers in every format, whole parts, runs that go on."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import bitvec
from bitvec.cli.program import program
from bitvec.errors import InputError
from bitvec.services import input_files, part_files, row_files

pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A model of three named columns, rows with a key, and their raw scores."""
    lightgbm, pd = pytest.importorskip("lightgbm"), pytest.importorskip("pandas")
    folder = tmp_path_factory.mktemp("lake")
    frame = pd.DataFrame(RNG.normal(size=(500, 3)), columns=["a", "b", "c"])
    frame.iloc[::7, 1] = np.nan
    model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(frame, frame.a * frame.c)
    model.booster_.save_model(folder / "model.txt")
    raw = bitvec.compile(bitvec.convert(folder / "model.txt")).raw(frame)[:, 0]
    rows = pl.from_pandas(frame).with_columns(pl.int_range(500).alias("key"))
    return folder / "model.txt", rows.select("key", "a", "b", "c"), raw


def write(rows, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".csv", ".tsv"):
        rows.write_csv(path, separator="\t" if path.suffix == ".tsv" else ",")
    elif path.suffix == ".parquet":
        rows.write_parquet(path, row_group_size=64)
    elif path.suffix in row_files.LINES:
        rows.write_ndjson(path)
    elif path.suffix == ".arrows":
        rows.write_ipc_stream(path)
    else:
        rows.write_ipc(path)
    return path


def read(path: Path):
    if path.suffix in (".csv", ".tsv"):
        return pl.read_csv(path, separator="\t" if path.suffix == ".tsv" else ",")
    if path.suffix == ".parquet":
        return pl.read_parquet(path)
    if path.suffix == ".arrows":
        return pl.read_ipc_stream(path)
    return pl.read_ndjson(path) if path.suffix in row_files.LINES else pl.read_ipc(path)


def run(*arguments: object, status: int = 0, **options: object) -> str:
    found = CliRunner().invoke(program, ["predict", *map(str, arguments)], **options)
    assert found.exit_code == status, found.output
    return found.output if status else found.stdout


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".arrow", ".arrows", ".ndjson"])
def test_each_format_gives_the_same_answers_and_keeps_keys(lake, tmp_path, suffix):
    model, rows, raw = lake
    source, target = write(rows, tmp_path / f"rows{suffix}"), tmp_path / f"out{suffix}"
    run(model, source, "--outputs", "raw", "--keep", "key", "-o", target)
    found = read(target)
    assert found.columns == ["key", "raw"]
    assert found["key"].to_list() == rows["key"].to_list()
    np.testing.assert_array_equal(found["raw"].to_numpy(), raw)


def test_batches_are_small_and_in_order(lake, tmp_path, monkeypatch):
    model, rows, _ = lake
    monkeypatch.setattr(row_files, "BATCH_ROWS", 50)
    inputs = bitvec.convert(model).inputs
    for suffix in (".parquet", ".arrow", ".ndjson", ".csv"):
        parts = list(row_files.batches(write(rows, tmp_path / f"rows{suffix}"), inputs))
        assert max(map(len, parts)) <= 50
        keys = np.concatenate([np.asarray(part["key"]) for part in parts])
        assert keys.tolist() == rows["key"].to_list()


def test_a_folder_is_predicted_part_by_part_by_processes(lake, tmp_path):
    model, rows, raw = lake
    for at, year in enumerate((2024, 2025)):
        write(rows[at * 250 :][:250], tmp_path / "lake" / f"year={year}" / "rows.parquet")
    out = tmp_path / "out"
    told = run(model, tmp_path / "lake", "-o", out, "--outputs", "raw,label", "--processes", 2)
    assert "500 rows" in told
    found = [read(out / f"year={year}" / "rows.parquet")["raw"] for year in (2024, 2025)]
    np.testing.assert_array_equal(np.concatenate(found), raw)
    manifest = json.loads((out / part_files.MANIFEST).read_text())
    assert {entry["rows"] for entry in manifest["done"].values()} == {250}
    for entry in manifest["done"].values():  # some worked out before the processes were there
        assert entry["sha256"] == hashlib.sha256(Path(entry["source"]).read_bytes()).hexdigest()


def test_a_digest_of_an_earlier_state_of_a_file_is_not_taken(lake, tmp_path):
    model, rows, _ = lake
    source = str(write(rows[:5], tmp_path / "rows.parquet"))
    known = input_files.state_and_digest(source)
    predict = bitvec.BatchPredictor(model)
    part = part_files.Part(source, "rows.parquet")
    out = str(tmp_path / "out")
    assert part_files.predict_part(predict, part, out, None, known)["sha256"] == known[1]
    write(rows[:6], Path(source))
    made = part_files.predict_part(predict, part, out, None, known)
    assert made["sha256"] == hashlib.sha256(Path(source).read_bytes()).hexdigest() != known[1]


def test_a_run_goes_on_where_it_was_stopped(lake, tmp_path, monkeypatch):
    model, rows, raw = lake
    for at in range(5):
        write(rows[at * 100 :][:100], tmp_path / "lake" / f"{at}.parquet")
    predict = bitvec.BatchPredictor(model, outputs=["raw"])
    files, out = input_files.find([str(tmp_path / "lake")]), tmp_path / "out"
    made = []

    def stopping(predict, part, *how):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(part.target)
        return one_part(predict, part, *how)

    one_part = part_files.predict_part
    monkeypatch.setattr(part_files, "predict_part", stopping)
    with pytest.raises(KeyboardInterrupt):
        part_files.predict_parts(predict, files, out)
    assert sorted(path.name for path in out.glob("*.parquet")) == ["0.parquet", "1.parquet"]
    with pytest.raises(InputError, match="go on with it by --resume"):
        part_files.predict_parts(predict, files, out)
    made.clear()
    monkeypatch.setattr(
        part_files, "predict_part", lambda *given: made.append(given[1].target) or one_part(*given)
    )
    assert part_files.predict_parts(predict, files, out, resume=True) == 500
    assert made == ["2.parquet", "3.parquet", "4.parquet"]
    found = [read(out / f"{at}.parquet")["raw"] for at in range(5)]
    np.testing.assert_array_equal(np.concatenate(found), raw)


def test_what_changed_since_is_refused(lake, tmp_path):
    model, rows, _ = lake
    source = write(rows, tmp_path / "lake" / "rows.parquet")
    out = tmp_path / "out"
    run(model, tmp_path / "lake", "-o", out)
    run(model, tmp_path / "lake", "-o", out, "--resume")
    told = run(model, tmp_path / "lake", "-o", out, "--resume", "--outputs", "raw", status=2)
    assert "got another outputs" in told
    write(rows[:10], source)
    told = run(model, tmp_path / "lake", "-o", out, "--resume", status=2)
    assert "must be as it was" in told
    run(model, tmp_path / "lake", "-o", out, "--force")
    assert len(read(out / "rows.parquet")) == 10


def started(command: list[str], out: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a run and return it with its processes once the first part is there."""
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not list(out.glob("*.parquet")):
        assert running.poll() is None
        time.sleep(0.01)
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text()
    return running, [int(child) for child in children.split()]


@pytest.mark.full
def test_a_killed_process_is_one_sentence_and_loses_nothing(lake, tmp_path):
    model, rows, raw = lake
    for at in range(40):
        write(pl.concat([rows] * 200), tmp_path / "lake" / f"{at:02}.parquet")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "bitvec", "predict", str(model), str(tmp_path / "lake"),
               "-o", str(out), "--outputs", "raw", "--processes", "2"]  # fmt: skip
    running, children = started(command, out)
    os.kill(children[-1], signal.SIGKILL)
    _, told = running.communicate(timeout=120)
    assert running.returncode == 2
    assert "got one that was killed" in told
    assert "Traceback" not in told
    subprocess.run([*command, "--resume"], check=True)
    found = [read(out / f"{at:02}.parquet")["raw"] for at in range(40)]
    np.testing.assert_array_equal(np.concatenate(found), np.tile(raw, 40 * 200))
    assert not list(out.glob(".*"))


def test_standard_input_is_text_or_an_arrow_stream(lake):
    model, rows, raw = lake
    arrow = io.BytesIO()
    rows.write_ipc_stream(arrow)
    for given in (rows.write_csv().encode(), arrow.getvalue()):
        told = run(model, "-", "--outputs", "raw", input=given)
        np.testing.assert_array_equal(pl.read_csv(told.encode())["raw"].to_numpy(), raw)
        asked = ("--outputs", "raw", "-o", "-", "--format", "arrow")
        done = CliRunner().invoke(program, ["predict", str(model), "-", *asked], input=given)
        np.testing.assert_array_equal(pl.read_ipc_stream(done.stdout_bytes)["raw"].to_numpy(), raw)
    assert "got nothing" in run(model, "-", input=b"", status=2)
    told = run(model, "-", input=b"a,b,c\n1,2,3\n4,5\n", status=2)
    assert "standard input: each row must have 3 cells" in told.replace("\n", " ")
    told = run(model, "-", input=arrow.getvalue()[:2000], status=2)
    assert "standard input must be an Arrow file or stream" in told.replace("\n", " ")


def test_an_arrow_stream_is_answered_while_it_comes(lake):
    model, rows, raw = lake
    command = [sys.executable, "-m", "bitvec", "predict", str(model), "-", "--outputs", "raw",
               "--format", "arrow"]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        table = rows.to_arrow()
        with pa.ipc.new_stream(running.stdin, table.schema) as writer:
            writer.write_table(table[:300])
            running.stdin.flush()
            answers = pa.ipc.open_stream(running.stdout)
            assert answers.read_next_batch()["raw"].to_pylist() == raw[:300].tolist()
            writer.write_table(table[300:])
        running.stdin.close()
        assert answers.read_next_batch()["raw"].to_pylist() == raw[300:].tolist()


def test_lines_of_json_may_change_their_numbers_anywhere(lake, tmp_path, monkeypatch):
    model, rows, _ = lake
    monkeypatch.setattr(row_files, "BLOCK", 4096)  # a few dozen rows
    held = [{name: row[name] for name in "abc"} for row in rows.iter_rows(named=True)]
    for at, row in enumerate(held):
        row["a"] = at % 5 - 2 if at < 200 else row["a"]  # whole numbers, then others
        row["b"] = None if at < 250 else row["b"]
        row |= {"note": "late"} if at > 300 else {}
    path = tmp_path / "late.ndjson"
    path.write_text("".join(json.dumps(row) + "\n" for row in held))
    told = run(model, path, "--outputs", "raw", "--drop", "note")
    frame = pl.DataFrame(held, infer_schema_length=None).select("a", "b", "c")
    expected = bitvec.compile(bitvec.convert(model)).raw(frame)[:, 0]
    np.testing.assert_array_equal(pl.read_csv(told.encode())["raw"].to_numpy(), expected)


@pytest.mark.parametrize("size", [1 << 20, 1 << 11])
def test_a_column_of_several_kinds_in_lines_of_json_holds_texts(tmp_path, monkeypatch, size):
    lightgbm, pd = pytest.importorskip("lightgbm"), pytest.importorskip("pandas")
    monkeypatch.setattr(row_files, "BLOCK", size)  # all lines, or a few dozen
    kind = RNG.choice(["0", "1", "x"], 400)
    frame = pd.DataFrame({"a": RNG.normal(size=400), "c": pd.Categorical(kind)})
    y = frame.a + pd.Series(kind).map({"0": 10.0, "1": 20.0, "x": 30.0})
    options = {"n_estimators": 20, "min_data_per_group": 1, "verbose": -1}
    model = lightgbm.LGBMRegressor(**options).fit(frame, y)
    model.booster_.save_model(tmp_path / "model.txt")
    cells = [*kind[:200].tolist(), *([1, 0.0, True, "x"] * 50)]
    held = [{"a": a, "c": c, "meta": {"u": 1}} for a, c in zip(frame.a, cells, strict=True)]
    held[-1]["meta"] = {"u": 1, "v": 2}  # what is not read may be anything
    path = tmp_path / "mixed.ndjson"
    path.write_text("\n".join(map(json.dumps, held)) + "\n\n \n")
    told = run(tmp_path / "model.txt", path, "--outputs", "raw", "--drop", "meta")
    texts = [cell if isinstance(cell, str) else json.dumps(cell) for cell in cells]
    predict = bitvec.compile(bitvec.convert(tmp_path / "model.txt")).raw
    with pytest.warns(UserWarning, match="no category for"):
        expected = predict(frame.assign(c=texts))[:, 0]
    np.testing.assert_array_equal(pl.read_csv(told.encode())["raw"].to_numpy(), expected)


@pytest.mark.parametrize("block", [1 << 20, 1])
def test_keys_in_lines_of_json_are_kept_whole(lake, tmp_path, monkeypatch, block):
    model, rows, _ = lake
    monkeypatch.setattr(row_files, "BLOCK", block)
    keys = {
        "id": [1, 2**63 + 5, 3],
        "größe": ["k", 7, None],
        "tags": [[], ["t"], []],
        "meta": [{"u": 1}, {"u": 1, "v": 2}, {}],
    }
    held = rows[:3].to_dicts()
    for name, cells in keys.items():
        for row, cell in zip(held, cells, strict=True):
            row[name] = cell
    path = tmp_path / "keys.ndjson"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in held), "utf-8")
    kept = [part for name in keys for part in ("--keep", name)]
    run(model, path, *kept, "-o", tmp_path / "out.ndjson")
    found = [json.loads(line) for line in (tmp_path / "out.ndjson").read_text("utf-8").splitlines()]
    assert [row["id"] for row in found] == keys["id"]
    assert [row["größe"] for row in found] == ["k", "7", None]
    assert [row["tags"] for row in found] == keys["tags"]
    assert found[1]["meta"] == {"u": 1, "v": 2}


@pytest.mark.parametrize("suffix", [".arrow", ".arrows", ".parquet"])
def test_batches_with_dictionaries_of_their_own_are_kept(lake, tmp_path, suffix):
    model, rows, _ = lake
    parts = []
    for at, text in ((0, "p"), (100, "q")):
        key = pa.array([text] * 100).dictionary_encode()
        parts.append(rows[at : at + 100].to_arrow().set_column(0, "key", key))
    with pa.ipc.new_stream(tmp_path / "two.arrows", parts[0].schema) as writer:
        for part in parts:
            writer.write_table(part)
    run(model, tmp_path / "two.arrows", "--keep", "key", "-o", tmp_path / f"out{suffix}")
    found = read(tmp_path / f"out{suffix}")["key"].cast(pl.String)
    assert found.to_list() == ["p"] * 100 + ["q"] * 100


def test_wrong_inputs_are_one_sentence_and_leave_nothing(lake, tmp_path, monkeypatch):
    model, rows, _ = lake
    monkeypatch.setattr(row_files, "BLOCK", 4096)
    out = tmp_path / "out"
    twins = [write(rows, tmp_path / name / "rows.parquet") for name in "ab"]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing")
    lines = rows.write_ndjson().splitlines(keepends=True)
    (tmp_path / "changed.ndjson").write_text("".join(lines[:5]) + '{"key": 1, "a": "text"}\n')
    (tmp_path / "kinds.ndjson").write_text("".join(lines) + '{"key": 1, "a": "text"}\n')
    write(rows.drop("b"), tmp_path / "short.parquet")
    two = pa.table([[1.0], [2.0], [3.0], [4.0]], names=["a", "a", "b", "c"])
    pytest.importorskip("pyarrow.parquet").write_table(two, tmp_path / "two.parquet")
    for says, arguments in (
        ("nor names files of rows", (tmp_path / "none*.parquet", "-o", f"{out}/")),
        ("got rows.parquet of", (*twins, "-o", out)),
        ("must lie outside the folder of answers", (twins[0], "-o", tmp_path / "a", "--force")),
        ("names files of rows outside", (tmp_path / "a", "-o", tmp_path / "a", "--force")),
        ("must have distinct column names", (tmp_path / "two.parquet", "-o", tmp_path / "out.csv")),
        ("must be a parquet file", (tmp_path / "bad.parquet", "-o", tmp_path / "out.csv")),
        ("must hold real numbers", (tmp_path / "kinds.ndjson", "-o", tmp_path / "out.csv")),
        ("must hold real numbers", (tmp_path / "changed.ndjson", "-o", tmp_path / "out.csv")),
        ("none named 'b'", (tmp_path / "short.parquet", "-o", tmp_path / "out.csv")),
        ("must have the column 'id'", (tmp_path / "a/rows.parquet", "--keep", "id")),
        ("need a folder", (tmp_path / "a/rows.parquet", "--resume")),
        ("into a folder", twins),
        ("`outputs` must be among", (tmp_path / "a/rows.parquet", "--outputs", "label,colour")),
    ):
        told = run(model, *arguments, status=2)
        assert says in told.replace("\n", " "), told
    assert not (tmp_path / "out.csv").exists()
    assert all(len(read(twin)) == 500 for twin in twins)


def test_an_input_that_is_replaced_before_its_digest_is_refused(lake, tmp_path, monkeypatch):
    model, rows, _ = lake
    source, out = write(rows[:5], tmp_path / "rows.parquet"), tmp_path / "out"
    digest = part_files.digest
    monkeypatch.setattr(part_files, "digest", lambda path: digest(write(rows[5:10], source)))
    told = run(model, source, "-o", f"{out}/", status=2)
    assert "must not change while it is read" in told
    assert [path.name for path in out.iterdir()] == [part_files.MANIFEST]
    monkeypatch.undo()
    run(model, source, "-o", f"{out}/")  # where nothing was made nothing is in the way
    assert len(read(out / "rows.parquet")) == 5


def test_a_link_to_an_input_is_not_written_through(lake, tmp_path):
    model, rows, _ = lake
    source, out = write(rows, tmp_path / "rows.parquet"), tmp_path / "out"
    out.mkdir()
    (out / "rows.parquet").symlink_to(source)
    told = run(model, source, "-o", out, "--force", status=2)
    assert "must not be one of the files that are read" in told.replace("\n", " ")
    assert len(read(source)) == 500


def test_keys_of_text_files_stay_as_they_are_written(lake, tmp_path):
    model, rows, raw = lake
    keys = {
        "id": ["007", "1e5", "x"],
        "country": ["NA", "nan", "null"],
        "whole": [str(2**53 + 1), "", "7"],
        "part": ["0.5", "0.25", "-2.0"],
        "empty": ["", "", ""],
    }
    text = rows[:3].with_columns(**{name: pl.Series(cells) for name, cells in keys.items()})
    path = write(text, tmp_path / "rows.csv")
    options = [given for name in (*keys, "a") for given in ("--keep", name)]
    told = run(model, path, *options, "--outputs", "raw")
    read_back = pl.read_csv(told.encode(), infer_schema=False).fill_null("")
    assert {name: read_back[name].to_list() for name in keys} == keys
    run(model, path, *options, "--outputs", "raw", "-o", tmp_path / "rows.parquet")
    kept = read(tmp_path / "rows.parquet")
    assert kept["whole"].to_list() == [2**53 + 1, None, 7]
    assert kept["part"].to_list() == [0.5, 0.25, -2]
    assert kept["a"].to_list() == rows["a"][:3].to_list()
    np.testing.assert_array_equal(kept["raw"], raw[:3])


def test_outputs_that_would_meet_are_refused(lake, tmp_path):
    model, rows, _ = lake
    for name in ("rows.csv", "rows.parquet"):
        write(rows[:5], tmp_path / "lake" / name)
    out = tmp_path / "out"
    told = run(model, tmp_path / "lake", "-o", out, "--format", "csv", status=2)
    assert "got rows.csv of" in told
    assert not out.exists()
    run(model, tmp_path / "lake", "-o", out)


def test_a_folder_of_answers_in_a_folder_of_rows_is_not_read(lake, tmp_path):
    model, rows, _ = lake
    write(rows[:5], tmp_path / "rows.parquet" / "rows.parquet")  # as Spark names a folder
    out = tmp_path / "rows.parquet" / "out"
    for options in ((), ("--resume",), ("--force",)):
        assert "5 rows" in run(model, tmp_path, "-o", out, *options)
    assert len(list(out.rglob("*.parquet"))) == 2  # the folder's and the file's
    (out / "rows.parquet" / "rows.parquet").unlink()
    run(model, tmp_path, "-o", out, "--resume")
    assert len(read(out / "rows.parquet" / "rows.parquet")) == 5
    manifest = out / part_files.MANIFEST
    edited = json.loads(manifest.read_text())
    del edited["done"]["rows.parquet/rows.parquet"]["rows"]
    manifest.write_text(json.dumps(edited))
    assert "got a damaged file" in run(model, tmp_path, "-o", out, "--resume", status=2)


def test_columns_stand_in_the_names_of_folders(lake, tmp_path):
    """`b` is a number to the model, `key` text where one of its values is."""
    model, rows, _ = lake
    parts = {"b=2/key=x%2Fy": 2.0, "b=-1/key=7": -1.0, "b=__HIVE_DEFAULT_PARTITION__/key=8": None}
    for at, folder in enumerate(parts):
        for suffix in (".parquet", ".csv"):
            some = rows[at * 10 :][:10].drop("b", "key")
            write(some, tmp_path / "lake" / suffix[1:] / folder / f"rows{suffix}")
    write(rows, tmp_path / "lake" / "_temporary" / "rows.parquet")
    write(rows, tmp_path / "lake" / ".hidden.parquet")
    out = tmp_path / "out"
    asked = ("--outputs", "raw", "--keep", "key", "--keep", "b", "--format", "parquet")
    run(model, tmp_path / "lake", "-o", out, *asked)
    predictor = bitvec.compile(bitvec.convert(model))
    for at, (folder, b) in enumerate(parts.items()):
        given = rows[at * 10 :][:10].with_columns(pl.lit(b, pl.Float64).alias("b"))
        for kind in ("parquet", "csv"):
            found = read(out / kind / folder / "rows.parquet")
            assert found["key"].to_list() == [["x/y", "7", "8"][at]] * 10
            assert found["b"].to_list() == [b] * 10
            expected = predictor.raw(given.select("a", "b", "c"))[:, 0]
            np.testing.assert_array_equal(found["raw"].to_numpy(), expected)
    assert len(list(out.rglob("*.parquet"))) == 6


def test_a_part_that_was_cut_short_is_made_again(lake, tmp_path):
    model, rows, _ = lake
    write(rows, tmp_path / "lake" / "rows.parquet")
    run(model, tmp_path / "lake", "-o", tmp_path / "out")
    whole = (tmp_path / "out" / "rows.parquet").read_bytes()
    (tmp_path / "out" / "rows.parquet").write_bytes(whole[:-9])
    run(model, tmp_path / "lake", "-o", tmp_path / "out", "--resume")
    assert (tmp_path / "out" / "rows.parquet").read_bytes() == whole


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_processes_end_with_the_one_that_began_them_and_the_run_goes_on(lake, tmp_path, sent):
    model, rows, raw = lake
    for at in range(12):
        write(pl.concat([rows] * 400), tmp_path / "lake" / f"{at:02}.parquet")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "bitvec", "predict", str(model), str(tmp_path / "lake"),
               "-o", str(out), "--outputs", "raw,shap", "--processes", "2"]  # fmt: skip
    running, begun = started(command, out)
    assert len(begun) >= 2
    running.send_signal(sent)
    start = time.monotonic()
    _, told = running.communicate(timeout=60)
    assert running.returncode == (130 if sent == signal.SIGINT else -sent)
    while any(Path(f"/proc/{child}").exists() for child in begun):
        assert time.monotonic() - start < 5
        time.sleep(0.01)
    if sent == signal.SIGINT:
        assert told.splitlines()[-1].endswith("interrupted; nothing was left half-written.")
        assert "Traceback" not in told
    done = {path.name for path in out.glob("*.parquet")}
    time.sleep(0.3)
    assert {path.name for path in out.glob("*.parquet")} == done
    subprocess.run([*command, "--resume"], check=True)
    found = [read(out / f"{at:02}.parquet")["raw"] for at in range(12)]
    np.testing.assert_array_equal(np.concatenate(found), np.tile(raw, 12 * 400))


def test_a_part_without_rows_and_whole_numbers_with_nulls_stay(lake, tmp_path):
    model, rows, _ = lake
    write(rows[:0], tmp_path / "lake" / "none.parquet")
    keys = pl.Series("key", [2**53 + 1, None, 7])
    write(rows[:3].with_columns(keys), tmp_path / "lake" / "some.parquet")
    for suffix in (".csv", ".ndjson"):
        out = tmp_path / suffix[1:]
        run(model, tmp_path / "lake", "-o", out, "--keep", "key", "--format", suffix[1:])
        assert read(out / f"some{suffix}")["key"].to_list() == keys.to_list()
    some = (tmp_path / "lake" / "some.parquet", "--keep", "key")
    assert json.loads(run(model, *some, "--json"))["columns"]["key"] == keys.to_list()
    assert "must hold numbers" in run(model, *some, "-o", tmp_path / "some.npy", status=2)
    run(model, tmp_path / "lake", "-o", tmp_path / "same", "--keep", "key")
    assert read(tmp_path / "same" / "none.parquet").columns == ["key", "prediction"]
    write(rows[:5].drop("b"), tmp_path / "lake" / "some.parquet")
    assert "in " in (told := run(model, tmp_path / "lake", "-o", tmp_path / "b", status=2))
    assert "some.parquet" in told
