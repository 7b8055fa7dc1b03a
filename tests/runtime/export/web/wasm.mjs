// Runs a model in onnxruntime-web under node: node wasm.mjs PACKAGE MODEL.
//
// PACKAGE is the folder of the npm package. Every line of stdin is JSON, {output, inputs}, with
// tensors as {type, dims, data}: base64 of their bytes, texts as lists. Every line of stdout
// answers one, first the version and the outputs' names: a tensor, or {error}.

import path from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, model] = process.argv.slice(2);
const KINDS = { float32: Float32Array, float64: Float64Array, float16: Uint16Array };
const tell = (answer) => process.stdout.write(JSON.stringify(answer) + "\n");

function tensor({ type, dims, data }) {
  const bytes = Uint8Array.from(Buffer.from(data, "base64")).buffer;
  return new ort.Tensor(type, new KINDS[type](bytes), dims);
}

function told({ type, dims, data }) {
  if (type === "string") return { type, dims, data };
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return { type, dims, data: bytes.toString("base64") };
}

const ort = await import(pathToFileURL(path.join(folder, "dist", "ort.node.min.mjs")));
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "error";
let session;
try {
  session = await ort.InferenceSession.create(model, { executionProviders: ["wasm"] });
  tell({ version: ort.env.versions.web, outputs: session.outputNames });
} catch (error) {
  tell({ error: String(error.message ?? error) });
  process.exit(0);
}
for await (const line of createInterface({ input: process.stdin })) {
  try {
    const { output, inputs } = JSON.parse(line);
    const fed = Object.fromEntries(Object.entries(inputs).map(([k, v]) => [k, tensor(v)]));
    tell(told((await session.run(fed, [output]))[output]));
  } catch (error) {
    tell({ error: String(error.message ?? error) });
  }
}
