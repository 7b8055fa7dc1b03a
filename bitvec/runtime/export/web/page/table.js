// Cells of a file as numbers for the model: columns by name, categories by their code books.

import { CsvError } from "./csv.js";
import { MISSING, parseNumber } from "./numbers.js";
import { rounding } from "./walk.js";

const MOST_TOLD = 20;
const UNSEEN = -1;

const shown = (text) => `"${text.length > 40 ? `${text.slice(0, 39)}…` : text}"`;

export class Table {
  constructor(page) {
    this.page = page;
    this.round = rounding(page.dtype);
    this.books = page.features.map((feature) => feature.labels && new Book(feature));
    this.places = null;
    this.problems = [];
    this.nProblems = 0;
    this.unseen = new Map();
    this.extra = [];
    this.blank = null;
    this.nRows = 0;
  }

  get notes() {
    const notes = [...this.unseen].map(([name, { count, text }]) =>
      `${name}: ${count} ${count === 1 ? "value is" : "values are"} none of its categories, for `
      + `example ${shown(text)}; they go where each node sends an unknown category.`);
    if (this.extra.length) notes.unshift(`Columns passed over: ${this.extra.join(", ")}.`);
    return notes;
  }

  // The numbers of one row, or null of the header and of a row that cannot be read.
  read({ line, cells }) {
    if (cells.length === 0) {
      this.blank ??= line;
      return null;
    }
    if (this.blank !== null) {
      throw new CsvError(`Line ${this.blank} is blank; write nan for a missing value.`);
    }
    if (this.places === null) {
      cells[0] = cells[0].replace(/^\uFEFF/, "");
      this.width = cells.length;
      if (this.readHeader(cells)) return null;
    }
    this.nRows++;
    if (cells.length !== this.width) {
      this.tell(`Row ${this.nRows} (line ${line}) must have ${this.width} cells, as the first line, got ${cells.length}.`);
      return null;
    }
    const before = this.nProblems;
    const values = this.places.map((place, at) => this.value(cells[place], at, line));
    return this.nProblems === before ? values : null;
  }

  // Find the columns. A forest without names reads by position, with or without a header.
  readHeader(cells) {
    const wanted = this.page.features.map((feature) => feature.name);
    if (cells.length === 1 && wanted.length > 1 && cells[0].includes(";")) {
      throw new CsvError('Cells must be separated by commas (in a .tsv file by tabs), got ";".');
    }
    const missing = wanted.filter((name) => !cells.includes(name));
    const named = cells.every((cell) => parseNumber(cell) === undefined);
    if (!this.page.has_names && missing.length) {
      if (cells.length !== wanted.length) {
        throw new CsvError(`The file must have ${wanted.length} columns, got ${cells.length}.`);
      }
      if (named) this.requireDistinct(cells);
      const counted = [0, 1].some((first) => cells.every((cell, at) => cell === String(first + at)));
      if (counted && cells.length > 2) {
        const start = cells.slice(0, 3).join(", ") + (cells.length > 3 ? ", ..." : "");
        throw new CsvError(
          `The first line ${start} may be names or values: give columns other names, or remove it.`);
      }
      this.places = wanted.map((_, at) => at);
      return named;
    }
    this.requireDistinct(cells);
    if (missing.length) {
      const names = missing.slice(0, MOST_TOLD).map(shown).join(", ");
      const more = missing.length > MOST_TOLD ? ` and ${missing.length - MOST_TOLD} more` : "";
      throw new CsvError(
        `The first line must name the model's columns; missing: ${names}${more}.`);
    }
    this.extra = cells.filter((cell) => !wanted.includes(cell));
    this.places = wanted.map((name) => cells.indexOf(name));
    return true;
  }

  requireDistinct(names) {
    const twice = names.find((name, at) => names.indexOf(name) !== at);
    if (twice !== undefined) {
      throw new CsvError(`Column names must be distinct, got ${shown(twice)} twice.`);
    }
  }

  value(cell, at, line) {
    const book = this.books[at], name = this.page.features[at].name;
    const row = `Row ${this.nRows} (line ${line}), column ${shown(name)}: `;
    if (MISSING.has(cell) && !book?.holds(cell)) return NaN;
    if (book === null) {
      const number = parseNumber(cell);
      if (number === undefined) this.tell(`${row}${shown(cell)} is not a number.`);
      return number === undefined ? NaN : this.round(number);
    }
    const code = book.code(cell);
    if (code !== undefined) return code;
    if (book.refuses(cell)) {
      this.tell(`${row}${shown(cell)} must be one of its categories (${book.example}).`);
      return NaN;
    }
    const seen = this.unseen.get(name) ?? { count: 0, text: cell };
    seen.count++;
    this.unseen.set(name, seen);
    return UNSEEN;
  }

  tell(problem) {
    this.nProblems++;
    if (this.problems.length < MOST_TOLD) this.problems.push(problem);
  }
}

const WHOLE = /^-?\d+$/;

// The categories of one column: a text's place is its code.
class Book {
  constructor({ labels, hashed }) {
    this.hashed = hashed;
    this.codes = new Map();
    labels.forEach(({ text, kind }, code) => {
      const key = this.key(kind, text);
      if (!this.codes.has(key)) this.codes.set(key, code);
    });
    this.kinds = new Set(labels.map((label) => label.kind));
    this.example = labels.slice(0, 5).map((label) => label.text).join(", ")
      + (labels.length > 5 ? ", ..." : "");
  }

  key(kind, text) {
    // Whole numbers as they are: a Number holds them up to 2 ** 53 only.
    if (kind === "number") {
      const value = WHOLE.test(text) ? BigInt(text) : parseNumber(text);
      return `number ${Number.isInteger(value) ? BigInt(value) : value}`;
    }
    return `${kind} ${kind === "truth" ? text.toLowerCase() : text}`;
  }

  holds(text) {
    return this.codes.has(`text ${text}`);
  }

  code(text) {
    for (const kind of this.kinds) {
      if (kind === "hash" || (kind === "number" && parseNumber(text) === undefined)) continue;
      const code = this.codes.get(this.key(kind, text));
      if (code !== undefined) return code;
    }
    return undefined;
  }

  // Whether a text that is none of the categories may yet stand for one of them: a code in the
  // place of a text, a text in the place of a number, or a category known by its hash alone.
  refuses(text) {
    if (this.hashed) return true;
    return this.kinds.has("text") ? parseNumber(text) !== undefined : parseNumber(text) === undefined;
  }
}
