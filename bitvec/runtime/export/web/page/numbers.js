// Numbers as texts, and texts as numbers, alike for the form, files and drawings.

export const MISSING = new Set(["", "NA", "N/A", "NaN", "nan", "null", "NULL"]);

const DECIMAL = /^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i;
const INFINITE = /^\s*([+-]?)(inf|infinity)\s*$/i;
const NOT_A_NUMBER = /^\s*[+-]?nan\s*$/i;

// The number that a text stands for, or undefined; 1_000 and 0x10 are no numbers.
export function parseNumber(text) {
  if (DECIMAL.test(text)) return Number(text);
  const infinite = INFINITE.exec(text);
  if (infinite) return infinite[1] === "-" ? -Infinity : Infinity;
  return NOT_A_NUMBER.test(text) ? NaN : undefined;
}

// The shortest text that names this float32 (or float64) and no other.
export function exactText(value, dtype) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (Object.is(value, -0)) return "-0";
  if (dtype !== "float32") return String(value);
  for (let digits = 1; digits < 10; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return String(Number(text));
  }
  return String(value);
}

// Six digits: for reading.
export function shortText(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(6))) : exactText(value);
}
