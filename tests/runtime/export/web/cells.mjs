// Reads rows of cells with the page's own code: node cells.mjs PAGE JOB, what was read to stdout.
//
// PAGE is the folder of the page's modules, JOB is JSON: {page, rows}, rows of texts.

import { readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const { Table } = await import(pathToFileURL(path.join(process.argv[2], "table.js")));
const { page, rows } = JSON.parse(readFileSync(process.argv[3], "utf8"));
const table = new Table(page);
const values = rows.map((cells, at) => table.read({ line: at + 1, cells }));
const texts = values.map((row) => row && row.map(String));
process.stdout.write(JSON.stringify({ texts, problems: table.problems, notes: table.notes }));
