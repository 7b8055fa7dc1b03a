// Runs a model in onnxruntime-web under node: node wasm.mjs DIST, of the npm package.
//
// The first line of stdin is the model, in base64. Every other line is JSON, {output, inputs}, with
// tensors as {type, dims, data}: base64 of their bytes, texts as lists. Every line of stdout answers
// one, the first with the version: a tensor, or {error}.

import path from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const KINDS = { float32: Float32Array, float64: Float64Array, float16: Uint16Array };
const tell = (answer) => process.stdout.write(JSON.stringify(answer) + "\n");
let ort, session;

async function opened(model) {
  const file = path.join(process.argv[2], "ort.node.min.mjs");
  ort = await import(pathToFileURL(file));
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = "error";
  const options = { executionProviders: ["wasm"] };
  session = await ort.InferenceSession.create(Buffer.from(model, "base64"), options);
  return { version: ort.env.versions.web };
}

function tensor({ type, dims, data }) {
  const bytes = Uint8Array.from(Buffer.from(data, "base64")).buffer;
  return new ort.Tensor(type, new KINDS[type](bytes), dims);
}

function told({ type, dims, data }) {
  if (type === "string") return { type, dims, data };
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return { type, dims, data: bytes.toString("base64") };
}

async function answered(line) {
  const { output, inputs } = JSON.parse(line);
  const fed = Object.fromEntries(Object.entries(inputs).map(([k, v]) => [k, tensor(v)]));
  return told((await session.run(fed, [output]))[output]);
}

for await (const line of createInterface({ input: process.stdin })) {
  try {
    tell(await (session ? answered(line) : opened(line)));
  } catch (error) {
    tell({ error: String(error.message ?? error) });
  }
}
