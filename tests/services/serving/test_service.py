"""A service over HTTP gives the predictor's answers, to many at once, and refuses in a sentence."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest

import bitvec
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.errors import InputError
from bitvec.services.serving import record_messages, tensor_messages

for name in ("starlette", "uvicorn", "prometheus_client", "polars", "lightgbm"):
    pytest.importorskip(name)
import lightgbm  # noqa: E402
import pandas as pd  # noqa: E402

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
TOWNS = ["Bern", "Ürümqi", "Oslo"]


def trained(folder: Path) -> tuple[Path, pd.DataFrame]:
    """Return a LightGBM model of numbers, missing ones, and names of towns, and its rows."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({f"x{at}": rng.normal(size=400) for at in range(3)})
    rows["x1"] = rows["x1"].where(rng.random(400) < 0.8)
    rows["town"] = pd.Categorical(rng.choice(TOWNS, 400), TOWNS)
    label = (rows["x0"] + (rows["town"] == "Oslo") > rows["x1"].fillna(0)).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=20, num_leaves=7, verbose=-1, n_jobs=1)
    path = folder / "towns.txt"
    model.fit(rows, label).booster_.save_model(path)
    return path, rows


class Service:
    """A running `bitvec serve`."""

    def __init__(self, path: Path, *options: str, host: str = "127.0.0.1") -> None:
        self.host = host
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bitvec", "serve", str(path), "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        if not said:
            raise AssertionError(self.process.communicate()[1])
        self.port = int(said.rsplit(":", 1)[1].split("/")[0])
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            try:
                if self.ask("GET", "/v2/health/ready")[0] == 200:
                    return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the service did not become ready")

    def ask(self, method: str, path: str, body: bytes | str | None = None, **headers: str):
        """Return the status, body and headers of an answer."""
        with_headers = {key.replace("_", "-"): value for key, value in headers.items()}
        connection = HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request(method, path, body, with_headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            connection.close()

    def records(self, rows, **headers: str):
        return self.ask("POST", "/predict", json.dumps(rows), **headers)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@pytest.fixture(scope="module")
def towns(tmp_path_factory):
    path, rows = trained(tmp_path_factory.mktemp("served"))
    service = Service(path, "--max-body", "1", "--max-rows", "5000")
    yield service, bitvec.compile(bitvec.convert(path)), rows
    service.stop()


def as_objects(rows: pd.DataFrame) -> list[dict]:
    return json.loads(rows.to_json(orient="records", double_precision=15))


def test_records_are_answered_as_the_predictor_answers_a_frame(towns):
    service, predictor, rows = towns
    exact = [
        {**row, **{name: None if np.isnan(row[name]) else row[name] for name in ("x0", "x1", "x2")}}
        for row in rows.to_dict("records")
    ]
    status, body, headers = service.records(exact)
    assert status == 200
    assert headers["content-type"] == JSON
    answers = json.loads(body)
    assert [row["prediction"] for row in answers] == predictor.predict(rows).tolist()
    assert [row["probability_1"] for row in answers] == predictor.predict_proba(rows)[:, 1].tolist()
    assert json.loads(service.records(exact[7])[1]) == answers[7:8]
    assert json.loads(service.records([])[1]) == []


def test_no_part_of_an_answer_waits_for_another_to_be_acknowledged(towns):
    service, _, rows = towns
    body = json.dumps(as_objects(rows[:1]))
    connection = HTTPConnection("127.0.0.1", service.port, timeout=60)
    seconds = []
    for _ in range(30):
        start = time.perf_counter()
        connection.request("POST", "/predict", body, {"content-type": JSON})
        assert connection.getresponse().read()
        seconds.append(time.perf_counter() - start)
    connection.close()
    assert min(seconds[10:]) < 0.03, "Linux acknowledges after 40 ms"


def test_arrow_streams_are_answered_in_arrow(towns):
    pyarrow = pytest.importorskip("pyarrow")
    service, predictor, rows = towns
    table = pyarrow.Table.from_pandas(rows, preserve_index=False)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body = sink.getvalue().to_pybytes()
    status, answer, headers = service.ask("POST", "/predict", body, content_type=ARROW)
    assert (status, headers["content-type"]) == (200, ARROW)
    found = pyarrow.ipc.open_stream(answer).read_all()
    assert np.array_equal(found["probability_1"], predictor.predict_proba(rows)[:, 1])
    status, answer, _ = service.ask("POST", "/predict", body, content_type=ARROW, accept=JSON)
    assert len(json.loads(answer)) == len(rows)
    for damaged in (body[:200], b"", body[:50] + b"\xff" * 60 + body[110:]):
        status, answer, _ = service.ask("POST", "/predict", damaged, content_type=ARROW)
        assert status == 400
        assert json.loads(answer)["error"].startswith("the body must be an Arrow stream")


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_arrow_is_refused_before_it_is_unpacked(towns, codec):
    pyarrow = pytest.importorskip("pyarrow")
    service, _, rows = towns
    options = pyarrow.ipc.IpcWriteOptions(compression=codec)
    zeros = np.zeros(3_000_000)
    for table in (
        pyarrow.table({"x0": zeros}),
        pyarrow.Table.from_pandas(rows, preserve_index=False),  # with a dictionary
    ):
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)
        body = sink.getvalue().to_pybytes()
        status, answer, _ = service.ask("POST", "/predict", body, content_type=ARROW)
        assert (status, json.loads(answer)["error"][:39]) == (
            400,
            "an Arrow stream must not be compressed:",
        )


def test_whole_numbers_beyond_64_bits_are_numbers_as_others(towns):
    service, _, _ = towns
    for number in (2**63, 2**64, 2**70, -(2**100)):
        whole, real = (ROW.replace("3", repr(value)) for value in (number, float(number)))
        status, answer, _ = service.ask("POST", "/predict", whole)
        assert status == 200, answer
        assert answer == service.ask("POST", "/predict", real)[1]


def columns_of(rows: pd.DataFrame, *, binary: bool) -> tuple[list[dict], bytes]:
    inputs, behind = [], b""
    for name in rows.columns:
        if name == "town":
            texts = rows[name].astype(str).tolist()
            kind, data = "BYTES", texts
            raw = b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in texts)
        else:
            kind, raw = "FP64", rows[name].to_numpy().tobytes()
            data = [None if np.isnan(x) else x for x in rows[name].tolist()]
        said = {"name": name, "datatype": kind, "shape": [len(rows)]}
        if binary:
            inputs.append({**said, "parameters": {"binary_data_size": len(raw)}})
            behind += raw
        else:
            inputs.append({**said, "data": data})
    return inputs, behind


INFER = "/v2/models/towns/infer"


def test_the_protocol_tells_the_inputs_and_outputs(towns):
    service, _, _ = towns
    for path in ("/v2/models/towns", "/v2/models/towns/versions/1"):
        facts = json.loads(service.ask("GET", path)[1])
        assert [each["datatype"] for each in facts["inputs"]] == ["FP64"] * 3 + ["BYTES"]
        assert facts["outputs"] == [
            {"name": "label", "datatype": "INT64", "shape": [-1]},
            {"name": "proba", "datatype": "FP64", "shape": [-1, 2]},
        ]
    assert "binary_tensor_data" in json.loads(service.ask("GET", "/v2")[1])["extensions"]


@pytest.mark.parametrize("binary", [False, True])
def test_tensors_of_columns_give_the_bits_of_the_predictor(towns, binary):
    service, predictor, rows = towns
    inputs, behind = columns_of(rows, binary=binary)
    message = {
        "id": "a7",
        "inputs": inputs,
        "outputs": [{"name": "proba", "parameters": {"binary_data": binary}}],
    }
    text = json.dumps(message).encode()
    headers = {"Inference_Header_Content_Length": str(len(text))} if binary else {}
    status, body, told = service.ask("POST", INFER, text + behind, **headers)
    assert status == 200, body
    told = {key.lower(): value for key, value in told.items()}
    if binary:
        n = int(told["inference-header-content-length"])
        answer, raw = json.loads(body[:n]), body[n:]
        found = np.frombuffer(raw, "<f8").reshape(answer["outputs"][0]["shape"])
    else:
        answer = json.loads(body)
        found = np.array(answer["outputs"][0]["data"]).reshape(answer["outputs"][0]["shape"])
    assert answer["id"] == "a7"
    assert answer["model_name"] == "towns"
    assert found.tobytes() == predictor.predict_proba(rows).tobytes()


@pytest.mark.parametrize("binary", [False, True])
def test_the_client_of_triton_gets_the_bits_of_the_predictor(towns, binary):
    """A client that others wrote reads what is served, and asks by it."""
    http = pytest.importorskip("tritonclient.http")
    service, predictor, rows = towns
    client = http.InferenceServerClient(f"127.0.0.1:{service.port}")
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("towns")
    facts = client.get_model_metadata("towns")
    inputs = []
    for told in facts["inputs"]:
        column = rows[told["name"]]
        values = column.astype(str) if told["datatype"] == "BYTES" else column
        if not binary:  # JSON has no NaN
            values = values.fillna(0)
        tensor = http.InferInput(told["name"], [len(rows)], told["datatype"])
        tensor.set_data_from_numpy(
            values.to_numpy(object if told["datatype"] == "BYTES" else float), binary_data=binary
        )
        inputs.append(tensor)
    names = [told["name"] for told in facts["outputs"]]
    asked = [http.InferRequestedOutput(name, binary_data=binary) for name in names]
    answer = client.infer("towns", inputs, outputs=asked, request_id="b8")
    given = rows if binary else rows.fillna({"x0": 0, "x1": 0, "x2": 0})
    assert answer.get_response()["id"] == "b8"
    assert np.array_equal(answer.as_numpy("label"), predictor.predict(given))
    assert answer.as_numpy("proba").tobytes() == predictor.predict_proba(given).tobytes()
    with pytest.raises(http.InferenceServerException, match="must be there, got 'x0'"):
        client.infer("towns", inputs[:1])
    client.close()


def test_inputs_are_told_in_types_that_are_read():
    forest = bitvec.Forest.from_matrices(
        np.eye(2), [0.5, 0.5], [[0, 0], [0, 1], [1, 1]], [[1.0], [2.0], [3.0]]
    )
    for books, told in (
        ((None, ("a", "b")), [("x", "FP64"), ("y", "BYTES")]),
        ((None, (1, 2, 10)), [(tensor_messages.ROWS, "FP64")]),
        ((("a", "b"), (1, 2, 10)), [(tensor_messages.ROWS, "FP64")]),
    ):
        of_books = replace(forest, inputs=Inputs(2, ("x", "y"), books))
        inputs = tensor_messages.metadata(of_books, "m", {})["inputs"]
        assert [(each["name"], each["datatype"]) for each in inputs] == told
        tensors = [
            {
                **each,
                "shape": [1 if n == -1 else n for n in each["shape"]],
                "data": ["b"] if each["datatype"] == "BYTES" else [1.0] * (3 - len(inputs)),
            }
            for each in inputs
        ]
        body = json.dumps({"inputs": tensors}).encode()
        asked = tensor_messages.decode(body, None, of_books, ("raw",))
        assert bitvec.compile(of_books).raw(asked.rows).tolist() == [[3.0]]


def test_a_matrix_is_answered_in_every_dtype(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 100, (50, 2))
    forest = bitvec.Forest.from_matrices(
        np.eye(2), [50.0, 20.5], [[0, 0], [0, 1], [1, 1]], [[1.0], [2.0], [3.0]]
    )
    bitvec.save(forest, tmp_path / "forest.safetensors")
    expected = bitvec.compile(forest).raw(X.astype(float))[:, 0]
    service = Service(tmp_path / "forest.safetensors", "--outputs", "raw", "--name", "m")
    try:
        for kind in ("INT8", "UINT8", "INT32", "INT64", "FP16", "FP32", "FP64"):
            tensor = {"name": "rows", "datatype": kind, "shape": [50, 2], "data": X.tolist()}
            status, body, _ = service.ask(
                "POST", "/v2/models/m/infer", json.dumps({"inputs": [tensor]})
            )
            assert status == 200, body
            assert json.loads(body)["outputs"][0]["data"] == expected.tolist()
        assert [
            row["raw"] for row in json.loads(service.records(X.tolist())[1])
        ] == expected.tolist()
        status, body, _ = service.records([{"x": 1, "y": 2}])
        assert (status, json.loads(body)["error"][:46]) == (
            400,
            "this forest does not know its columns by name:",
        )
        assert service.ask("POST", "/v2/models/towns/infer", "{}")[0] == 404
    finally:
        assert service.stop() in (0, -signal.SIGTERM)


def test_many_at_once_each_get_their_own_answer(towns):
    service, predictor, rows = towns
    expected = predictor.predict_proba(rows)[:, 1]
    numbered = as_objects(rows)

    def one(at: int) -> bool:
        n = 1 + at % 3
        body = json.loads(service.records(numbered[at : at + n])[1])
        return np.allclose([r["probability_1"] for r in body], expected[at : at + n], rtol=1e-12)

    def wrong(at: int) -> bool:
        return service.records([{**numbered[at], "x0": "seven"}])[0] == 400

    with ThreadPoolExecutor(16) as pool:
        good, bad = pool.map(one, range(300)), pool.map(wrong, range(20))
        assert all(good)
        assert all(bad)
    figures = service.ask("GET", "/metrics")[1].decode()
    assert 'bitvec_requests_total{route="predict",status="400"}' in figures
    assert "bitvec_call_rows_bucket" in figures


ROW = '[{"x0": 1, "x1": 2, "x2": 3, "town": "Oslo"}]'
HOSTILE = {
    "nothing": ("/predict", "", "must be JSON"),
    "half": ("/predict", ROW[:-3], "must be JSON"),
    "deep": ("/predict", "[" * 100_000, "nested too deeply"),
    "text": ("/predict", '"rows"', "must be a list of rows, got str"),
    "mixed": ("/predict", "[{}, []]", "must all be objects"),
    "short": ("/predict", ROW.replace('"x1": 2, ', ""), "must have the column 'x1'"),
    "wide": ("/predict", "[[1, 2]]", "must have 4 numbers, got 2 in row 0"),
    "words": ("/predict", '[["a", 1, 2, 3]]', "must hold numbers"),
    "kinds": ("/predict", f"[{ROW[1:-1]}, {ROW[1:-1].replace('3', '[3]')}]", "values of one kind"),
    "huge": ("/predict", f"[[1, 2, 3, {'9' * 400}]]", "must fit into float64"),
    "list": (INFER, "[]", "must be a JSON object"),
    "no inputs": (INFER, "{}", "must have inputs"),
    "inputs": (INFER, '{"inputs": 7}', "`inputs` must be a list of objects"),
    "no name": (INFER, '{"inputs": [{}]}', "must have a name"),
    "datatype": (INFER, '{"inputs": [{"name": "rows", "datatype": "FP128"}]}', "datatype"),
    "shape": (
        INFER,
        '{"inputs": [{"name": "rows", "datatype": "FP32", "shape": [-1, 4], "data": []}]}',
        "must be a list of whole numbers",
    ),
    "sizes": (
        INFER,
        '{"inputs": [{"name": "rows", "datatype": "FP32", "shape": [999999999, 4], "data": [1]}]}',
        "must have 3999999996 values by its shape, got 1",
    ),
    "bool": (
        INFER,
        '{"inputs": [{"name": "rows", "datatype": "FP32", "shape": [1], "data": [true]}]}',
        "must hold FP32, got bool",
    ),
    "range": (
        INFER,
        '{"inputs": [{"name": "rows", "datatype": "INT8", "shape": [1], "data": [128]}]}',
        "must fit into INT8",
    ),
    "float range": (
        INFER,
        '{"inputs": [{"name": "rows", "datatype": "FP32", "shape": [1], "data": [1e39]}]}',
        "must fit into FP32",
    ),
    "surrogate": (
        "/predict",
        ROW.replace("Oslo", "\\ud800"),
        "must be Unicode, got half of a pair, ",
    ),
    "huge in a column": ("/predict", ROW.replace("3", "9" * 400), "must fit into float64"),
    "datatypes": (INFER, '{"inputs": [{"name": "rows", "datatype": ["FP32"]}]}', "must be one of"),
    "dimensions": (
        INFER,
        '{"inputs": [{"name": "rows", "datatype": "FP32", "shape": [%s1], "data": [1]}]}'
        % ("1, " * 100),
        "must have at most 8 dimensions",
    ),
    "dimension": (
        INFER,
        '{"inputs": [{"name": "rows", "datatype": "FP32", "shape": [0, %s], "data": []}]}'
        % ("9" * 30),
        "dimensions, each of at most",
    ),
    "output": (INFER, '{"inputs": [], "outputs": [{"name": "secret"}]}', "must have inputs"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_body_is_refused_in_a_sentence(towns, what):
    service, _, _ = towns
    path, body, says = HOSTILE[what]
    status, answer, _ = service.ask("POST", path, body)
    sentence = json.loads(answer)["error"]
    assert status == 400, sentence
    assert says in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert service.ask("POST", "/predict", ROW)[0] == 200


@pytest.mark.parametrize(
    ("said", "behind", "says"),
    [
        ("-1", b"", "must be a whole number"),
        ("9" * 5000, b"", "must be a whole number"),
        ("99999", b"", "must be within the body"),
        ("{n}", b"12345678", "must be within the 8 bytes that are left, got 9"),
    ],
)
def test_lengths_that_lie_are_refused(towns, said, behind, says):
    service, _, _ = towns
    tensor = {"name": "x0", "datatype": "FP64", "shape": [1]}
    text = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": 9}}]})
    length = said.format(n=len(text))
    status, answer, _ = service.ask(
        "POST", INFER, text.encode() + behind, Inference_Header_Content_Length=length
    )
    assert (status, says in json.loads(answer)["error"]) == (400, True)


def test_limits_have_their_own_statuses(towns):
    service, _, _ = towns
    row = json.loads(ROW)
    assert service.records(row * 5001)[0] == 413
    assert service.ask("POST", "/predict", b" " * (2 << 20))[0] == 413
    assert service.ask("POST", "/predict", ROW, content_encoding="gzip")[0] == 415
    assert service.ask("POST", "/predict", ROW, content_type="text/csv")[0] == 415
    assert service.ask("GET", "/predict")[0] == 405
    assert service.ask("GET", "/nowhere")[0] == 404
    assert service.ask("GET", "/v2/models/other/ready")[0] == 404
    # A body that announces no length is read no further than it may.
    with socket.create_connection(("127.0.0.1", service.port), 60) as sent:
        sent.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        with_length = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        try:
            for _ in range(8):
                sent.sendall(with_length)
        except OSError:
            pass
        assert sent.recv(12) == b"HTTP/1.1 413"


def test_a_client_that_goes_in_the_middle_of_its_body_is_no_failure(towns):
    service, _, _ = towns
    counted = 'bitvec_requests_total{route="predict",status="400"}'

    def count() -> float:
        lines = service.ask("GET", "/metrics")[1].decode().splitlines()
        assert not any('status="500"' in line for line in lines)
        return sum(float(line.split()[-1]) for line in lines if line.startswith(counted))

    before = count()
    with socket.create_connection(("127.0.0.1", service.port), 60) as sent:
        sent.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n[[1, 2")
    end = time.monotonic() + 30
    while count() == before:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_it_listens_at_addresses_of_ipv6(tmp_path):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    service = Service(trained(tmp_path)[0], "--host", "::1", host="::1")
    assert service.ask("POST", "/predict", ROW)[0] == 200
    assert service.stop() in (0, -signal.SIGTERM)


def test_a_head_without_end_is_ended(towns):
    service, _, _ = towns
    with socket.create_connection(("127.0.0.1", service.port), 60) as sent:
        sent.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 1000)
        with pytest.raises(OSError):  # noqa: PT012
            for _ in range(100):
                sent.sendall(b"a" * (1 << 20))
    # Heads of many requests over one connection count alone.
    connection = HTTPConnection("127.0.0.1", service.port, timeout=60)
    for _ in range(20):
        connection.request("GET", "/v2", headers={"X": "a" * 20_000})
        assert connection.getresponse().read().startswith(b'{"name"')
    connection.close()


def test_a_port_that_is_taken_is_said_in_a_sentence(towns, tmp_path):
    service, _, _ = towns
    path, _ = trained(tmp_path)
    found = subprocess.run(
        [sys.executable, "-m", "bitvec", "serve", str(path), "--port", str(service.port)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.returncode == 2
    assert f"must be free to listen at, got 127.0.0.1:{service.port}" in found.stderr


def test_open_requests_are_answered_before_it_stops(tmp_path):
    path, rows = trained(tmp_path)
    service = Service(path)
    body = json.dumps(as_objects(rows) * 100)
    found = []
    asking = threading.Thread(target=lambda: found.append(service.ask("POST", "/predict", body)))
    asking.start()
    time.sleep(0.1)
    assert service.stop() in (0, -signal.SIGTERM)
    asking.join(60)
    assert found[0][0] == 200
    assert len(json.loads(found[0][1])) == 100 * len(rows)
    with pytest.raises(OSError):
        service.ask("GET", "/v2/health/live")


def test_numbers_where_categories_are_numbers_are_no_codes():
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    inputs = Inputs(2, feature_names=("n", "zip"), categories=(None, (5, 7)))
    X, n_rows = record_messages.decode(
        b'[{"n": 1, "zip": 5}]', record_messages.JSON, replace(forest, inputs=inputs)
    )
    assert n_rows == 1
    with pytest.raises(InputError, match="zip"):
        bitvec.compile(replace(forest, inputs=inputs)).predict(X)


@pytest.mark.parametrize("sizes", [(41, 41.5), (41.5, 41), (None, 41, 41.5)])
def test_whole_numbers_stand_beside_others_in_any_order(sizes):
    forest = Forest.from_matrices([[1, 0]], [41.2], [[0], [1]], [10, 20])
    inputs = Inputs(2, feature_names=("size", "colour"), categories=(None, ("red", "blue")))
    forest = replace(forest, inputs=inputs)
    body = json.dumps([{"size": size, "colour": "red"} for size in sizes]).encode()
    X, _ = record_messages.decode(body, record_messages.JSON, forest)
    expected = [10.0 if size is None or size <= 41.2 else 20.0 for size in sizes]
    assert bitvec.compile(forest).predict(X).tolist() == expected


@pytest.mark.parametrize(
    ("row", "dtype"), [([4, 1], "i"), ([4, 1.5], "f"), ([4, None], "f"), ([1 << 70, 1], "f")]
)
def test_lists_of_whole_numbers_stay_whole(row, dtype):
    """Category codes of some models are hashes, of 4 another one than of 4.0."""
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    X, n_rows = record_messages.decode(json.dumps([row]).encode(), record_messages.JSON, forest)
    assert (n_rows, X.dtype.kind) == (1, dtype)
    assert bitvec.compile(forest).predict(X).tolist() == [20.0]
