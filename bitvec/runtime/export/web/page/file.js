// A file of rows: read in pieces, predicted in blocks, so that the page stays alive.

import { csvCell, CsvError, CsvReader } from "./csv.js";
import { at, element, say } from "./elements.js";
import { Table } from "./table.js";

const ROWS_PER_BLOCK = 2048;
const MOST_SHOWN = 100;

export class FileRunner {
  constructor(page, model, onRow) {
    this.page = page;
    this.model = model;
    this.onRow = onRow;
    this.turn = 0;
    at("file").addEventListener("change", () => this.start(at("file").files[0]));
    at("stop").addEventListener("click", () => this.stop());
    // A file that misses the place must not take the page away.
    for (const name of ["dragover", "drop"]) {
      document.addEventListener(name, (event) => event.preventDefault());
    }
    const drop = at("drop");
    for (const name of ["dragenter", "dragover"]) {
      drop.addEventListener(name, (event) => {
        event.preventDefault();
        drop.classList.add("over");
      });
    }
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => {
      event.preventDefault();
      drop.classList.remove("over");
      this.start(event.dataTransfer.files[0]);
    });
  }

  stop() {
    this.turn++;
    at("running").hidden = true;
    say("file-status", "Stopped: nothing was kept.");
  }

  async start(file) {
    if (!file) return;
    const turn = ++this.turn;
    const isCurrent = () => this.turn === turn;
    this.clear();
    at("running").hidden = false;
    const table = new Table(this.page);
    try {
      const result = await this.predict(file, table, isCurrent);
      if (!isCurrent()) return;
      say("file-status", "");
      if (table.nProblems) this.refuse(table);
      else this.show(file, table, result);
    } catch (error) {
      if (!isCurrent()) return;
      say("file-status", "");
      const known = error instanceof CsvError || error instanceof TypeError;
      const told = error instanceof TypeError ? "The file must be text in UTF-8." : error.message;
      at("file-problems").append(element("p", {}, `${file.name}: ${told}`));
      if (!known) throw error;
    } finally {
      if (isCurrent()) {
        at("running").hidden = true;
        at("file").value = "";      // the same file may be chosen again, changed
      }
    }
  }

  clear() {
    for (const id of ["file-problems", "file-notes", "results"]) at(id).replaceChildren();
    at("results").hidden = at("download").hidden = true;
    if (at("download").href) URL.revokeObjectURL(at("download").href);
    at("download").removeAttribute("href");
    at("progress").value = 0;
    say("file-status", "Reading ...");
  }

  async predict(file, table, isCurrent) {
    const reader = new CsvReader(file.name.toLowerCase().endsWith(".tsv") ? "\t" : ",");
    const text = file.stream().pipeThrough(new TextDecoderStream("utf-8", { fatal: true }));
    const result = { parts: [this.header()], shown: [], nRows: 0 };
    let block = [], bytes = 0;
    const flush = async () => {
      if (block.length && !table.nProblems) await this.block(block, result, isCurrent);
      block = [];
    };
    const take = async (rows) => {
      for (const row of rows) {
        const values = table.read(row);
        if (values !== null) block.push(values);
        if (block.length < ROWS_PER_BLOCK) continue;
        await flush();
        if (!isCurrent()) return;
        say("file-status", `${result.nRows} rows`);
      }
    };
    const pieces = text.getReader();
    for (let piece; !(piece = await pieces.read()).done;) {
      if (!isCurrent()) {
        await pieces.cancel();
        return result;
      }
      await take(reader.push(piece.value));
      bytes += piece.value.length;
      at("progress").value = Math.min(1, bytes / file.size);
    }
    await take(reader.end());
    await flush();
    if (!table.nRows) throw new CsvError("The file must hold rows, got none.");
    return result;
  }

  async block(rows, result, isCurrent) {
    const width = this.page.features.length;
    const values = this.model.array(rows.length * width);
    rows.forEach((row, at) => values.set(row, at * width));
    const lines = [];
    let row = 0;
    for await (const answer of this.model.many(values)) {
      if (!isCurrent()) return;
      const cells = this.cells(answer);
      lines.push(cells.map(csvCell).join(","));
      if (result.shown.length < MOST_SHOWN) result.shown.push({ values: rows[row], cells });
      row++;
    }
    result.parts.push(`${lines.join("\n")}\n`);
    result.nRows += rows.length;
  }

  names() {
    const { groups, leaf_names: outputs } = this.page;
    const several = (name, all, index) => (all.length > 1 ? `${name}_${index}` : name);
    if (groups === null) return outputs.map((_, index) => several("prediction", outputs, index));
    return [
      ...groups.map((_, index) => several("label", groups, index)),
      ...groups.flatMap((group) => group.classes.map((name) => `${group.output}_${name}`)),
    ];
  }

  header() {
    return `${this.names().map(csvCell).join(",")}\n`;
  }

  cells(answer) {
    if (answer.values) return answer.values.map((value) => this.model.text(value));
    const shares = answer.probabilities.flat();
    return [...answer.labels, ...shares.map((value) => this.model.text(value))];
  }

  refuse(table) {
    const more = table.nProblems - table.problems.length;
    const items = table.problems.map((problem) => element("li", {}, problem));
    if (more) items.push(element("li", {}, `and ${more} more`));
    at("file-problems").append(
      element("p", {}, "Nothing was predicted, since some cells cannot be read:"),
      element("ul", {}, ...items));
  }

  show(file, table, result) {
    say("file-status", `${file.name}: ${result.nRows} ${result.nRows === 1 ? "row" : "rows"} predicted.`);
    at("file-notes").replaceChildren(...table.notes.map((note) => element("li", {}, note)));
    const download = at("download");
    download.href = URL.createObjectURL(new Blob(result.parts, { type: "text/csv" }));
    download.download = `${file.name.replace(/\.[^.]*$/, "")}.predictions.csv`;
    download.hidden = false;
    const head = ["row", ...this.names(), ""].map((name) => element("th", { scope: "col" }, name));
    const rows = result.shown.map(({ values, cells }, index) => {
      const button = element("button", { type: "button" }, "use");
      button.setAttribute("aria-label", `Put row ${index + 1} into the form`);
      button.addEventListener("click", () => this.onRow(values));
      return element("tr", {}, element("th", { scope: "row" }, String(index + 1)),
        ...cells.map((cell) => element("td", {}, cell)), element("td", {}, button));
    });
    const caption = result.nRows > rows.length
      ? `The first ${rows.length} of ${result.nRows} rows` : "All rows";
    at("results").replaceChildren(element("table", {}, element("caption", { class: "quiet" }, caption),
      element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
    at("results").hidden = false;
  }
}
