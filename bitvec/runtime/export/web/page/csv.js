// Rows of cells out of text that comes in pieces (RFC 4180; lines end in \n, \r\n or \r).

export class CsvError extends Error {}

export class CsvReader {
  constructor(separator) {
    this.separator = separator;
    this.cells = [];
    this.cell = "";
    this.state = "start";     // of a cell: start, plain, quoted, quote (after a quote in quotes)
    this.line = 1;
    this.afterReturn = false;
    this.rows = [];
  }

  // The rows that are whole after this piece: [{line, cells}].
  push(text) {
    const special = this.separator;
    for (let at = 0; at < text.length; at++) {
      const c = text[at];
      const pairs = c === "\n" && this.afterReturn;
      this.afterReturn = c === "\r";
      if (pairs && this.state !== "quoted") continue;
      if (c === "\0") throw new CsvError(`Line ${this.line} holds a null character: this is no text file.`);
      if (this.state === "quoted") {
        if (c === '"') this.state = "quote";
        else {
          if (c === "\r" || (c === "\n" && !pairs)) this.line++;
          this.cell += c;
        }
      } else if (c === '"' && this.state === "start") this.state = "quoted";
      else if (c === '"' && this.state === "quote") {
        this.cell += c;
        this.state = "quoted";
      } else if (c === special) this.endCell();
      else if (c === "\n" || c === "\r") this.endRow();
      else {
        if (this.state === "quote") {
          throw new CsvError(`Line ${this.line} has text behind a closing quote.`);
        }
        this.cell += c;
        this.state = "plain";
      }
    }
    return this.rows.splice(0);
  }

  // The last row, where no line end follows it.
  end() {
    if (this.state === "quoted") throw new CsvError("A quote is opened and never closed.");
    if (this.cells.length || this.state !== "start") this.endRow();
    return this.rows.splice(0);
  }

  endCell() {
    this.cells.push(this.cell);
    this.cell = "";
    this.state = "start";
  }

  endRow() {
    const blank = this.cells.length === 0 && this.state === "start";
    if (!blank) this.endCell();
    this.rows.push({ line: this.line++, cells: this.cells });
    this.cells = [];
  }
}

export function csvCell(text) {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
