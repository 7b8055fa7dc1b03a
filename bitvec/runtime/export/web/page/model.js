// The ONNX model in onnxruntime-web: WebAssembly, one thread, everything from beside the page.

import * as ort from "./onnxruntime/ort.wasm.min.js";
import { exactText } from "./numbers.js";

const beside = (name) => new URL(name, import.meta.url).href;
const MILLISECONDS_PER_RUN = 40;
const MOST_ROWS_PER_RUN = 4096;

async function download(name, onBytes = () => {}) {
  const response = await fetch(beside(name));
  if (!response.ok) throw new Error(`${name} must lie beside this page, got ${response.status}.`);
  const parts = [];
  let size = 0;
  for (let reader = response.body.getReader(), part; !(part = await reader.read()).done;) {
    parts.push(part.value);
    onBytes(size += part.value.length);
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

export async function readPage() {
  return JSON.parse(new TextDecoder().decode(await download("forest.json")));
}

export class Model {
  // `onProgress` is called with the share of the bytes that have come.
  static async open(page, onProgress) {
    const come = [0, 0];
    const show = (at) => (bytes) => {
      come[at] = bytes;
      onProgress((come[0] + come[1]) / (page.wasm_bytes + page.model_bytes));
    };
    const [wasm, bytes] = await Promise.all([
      download("onnxruntime/ort-wasm-simd-threaded.wasm", show(0)),
      download("model.onnx", show(1)),
    ]);
    ort.env.logLevel = "error";
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.wasmBinary = wasm.buffer;
    ort.env.wasm.wasmPaths = { mjs: beside("onnxruntime/ort-wasm-simd-threaded.js") };
    const session = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] });
    return new Model(page, session);
  }

  constructor(page, session) {
    this.page = page;
    this.session = session;
    this.last = Promise.resolve();
    this.rowsPerRun = 16;
    this.answers = page.groups === null
      ? ["prediction"]
      : ["label", ...page.groups.map((group) => group.output)];
  }

  array(length) {
    return new (this.page.dtype === "float32" ? Float32Array : Float64Array)(length);
  }

  // One run at a time, in the order asked.
  run(values, outputs) {
    const width = this.page.features.length;
    const X = new ort.Tensor(this.page.dtype, values, [values.length / width, width]);
    const turn = this.last.then(() => this.session.run({ X }, outputs));
    this.last = turn.catch(() => {});
    return turn;
  }

  // The answer to one row, and its exit leaf in each tree.
  async one(values) {
    const found = await this.run(values, [...this.answers, "leaves"]);
    return { ...this.read(found, 0), leaves: Array.from(found.leaves.data, Number) };
  }

  // The answers to a block of rows. Runs are cut so short that the page stays alive.
  async *many(values) {
    const width = this.page.features.length;
    for (let first = 0; first < values.length;) {
      const end = Math.min(values.length, first + this.rowsPerRun * width);
      const started = performance.now();
      const found = await this.run(values.slice(first, end), this.answers);
      const taken = performance.now() - started;
      const ideal = this.rowsPerRun * MILLISECONDS_PER_RUN / Math.max(taken, 1);
      this.rowsPerRun = Math.max(1, Math.min(MOST_ROWS_PER_RUN, 2 * this.rowsPerRun, ideal | 0));
      for (let row = 0; row < (end - first) / width; row++) yield this.read(found, row);
      first = end;
      await new Promise((resume) => setTimeout(resume));
    }
  }

  // One row of the outputs: {values} of a regressor, {labels, probabilities} of a classifier.
  read(found, row) {
    const { groups } = this.page;
    if (groups === null) return { values: rowOf(found.prediction, row) };
    const n = groups.length;
    return {
      labels: groups.map((_, at) => labelText(found.label, row * n + at)),
      probabilities: groups.map((group) => rowOf(found[group.output], row)),
    };
  }

  text(score) {
    return exactText(score, this.page.output_dtype);
  }
}

function rowOf(tensor, row) {
  const width = tensor.dims[1];
  return Array.from(tensor.data.subarray(row * width, (row + 1) * width));
}

function labelText(tensor, at) {
  const value = tensor.data[at];
  if (tensor.type === "bool") return value ? "True" : "False";
  if (typeof value !== "number") return String(value);
  const text = exactText(value, tensor.type);
  return Number.isInteger(value) && !text.includes("e") ? `${text}.0` : text;
}
