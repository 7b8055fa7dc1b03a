// Which way a row goes at a node, and so down a tree: the conventions of bitvec, literally.
//
// A node goes right where its test holds. All arithmetic is in the forest's dtype: a float32 sum or
// product is the float64 one, rounded (which is exact for one operation).

const SET = 1, EQUAL = 2;                       // kinds; the others compare z with b
const GREATER = 0;                              // relations; the other is >=
const NAN_OR_ZERO = 1, NAN_OR_SENTINEL = 2;     // missing rules
const EXACT = 0, TRUNCATE = 1;                  // code rules; the third rounds down
const ZERO_THRESHOLD = Math.fround(1e-35);

// 1 / n! and 1 / (2 n + 1), of the series of exp and artanh.
const EXP = [], ARTANH = [];
for (let n = 0, factorial = 1; n < 14; n++, factorial *= n) EXP.push(1 / factorial);
for (let n = 0; n < 18; n++) ARTANH.push(1 / (2 * n + 1));
const FAR = 746, LOG2_E = 1.4426950408889634;
const LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;

// log(1 + exp(x)) by operations that are rounded alike everywhere, as bitvec computes it: Math.exp
// and Math.log1p are each browser's own.
export function softplus(x) {
  if (Number.isNaN(x)) return x;
  const u = Math.min(Math.abs(x), FAR), k = Math.floor(u * LOG2_E + 0.5);
  let t = polynomial(EXP, (k * LN2_HIGH - u) + k * LN2_LOW), power = 1;
  for (let n = 0; n < k; n++) power /= 2;
  t *= power;
  const s = t / (2 + t);
  return Math.max(x, 0) + (s + s) * polynomial(ARTANH, s * s);
}

function polynomial(coefficients, x) {
  return coefficients.reduceRight((value, one) => value * x + one);
}

export function rounding(dtype) {
  return dtype === "float32" ? Math.fround : Number;
}

export class Walker {
  constructor(page) {
    this.round = rounding(page.dtype);
    this.sentinel = page.sentinel === null ? null : this.round(page.sentinel);
  }

  isMissing(x, rule) {
    if (Number.isNaN(x)) return true;
    if (rule === NAN_OR_ZERO) return Math.abs(x) <= ZERO_THRESHOLD;
    return rule === NAN_OR_SENTINEL && this.sentinel !== null && x === this.sentinel;
  }

  // The value that a node compares, and whether it is missing.
  value(tree, node, row) {
    const rule = tree.missing_rule[node];
    if (tree.column[node] >= 0) {
      const x = row[tree.column[node]];
      return { z: x, missing: this.isMissing(x, rule) };
    }
    let z = 0, missing = false;
    tree.sums[node].forEach((sum, at) => {
      const part = this.sum(sum, rule, row);
      missing ||= part.missing;
      z = at === 0 ? part.z : this.round(z + part.z);
    });
    return { z, missing };
  }

  // r · activation((S x) − offset) of one row of S.
  sum(sum, rule, row) {
    let z = 0, missing = false;
    sum.columns.forEach((column, at) => {
      let x = row[column], absent = this.isMissing(x, rule);
      const substitute = sum.substitutes?.[at] ?? null;
      if (absent && substitute !== null) [x, absent] = [Number(substitute), false];
      const code = sum.indicators?.[at] ?? -1;
      if (code >= 0) x = x === code ? 1 : 0;
      missing ||= absent;
      const term = this.round(sum.weights[at] * x);
      z = at === 0 ? term : this.round(z + term);
    });
    z = this.round(z - sum.offset);
    if (sum.softplus) z = this.round(softplus(z));
    return { z: this.round(sum.r * z), missing };
  }

  goesRight(tree, node, row) {
    const { z, missing } = this.value(tree, node, row);
    if (missing) return tree.missing_right[node] === 1;
    if (tree.kind[node] === SET) return inSet(tree.sets[node], z);
    if (Number.isNaN(z)) return tree.missing_right[node] === 1;
    const b = Number(tree.b[node]);
    if (tree.kind[node] === EQUAL) return z === b;
    return tree.relation[node] === GREATER ? z > b : z >= b;
  }

  // The exit leaf of a row, as a number within the tree.
  exitLeaf(tree, row) {
    let at = tree.left.length ? 0 : ~0;
    while (at >= 0) at = this.goesRight(tree, at, row) ? tree.right[at] : tree.left[at];
    return ~at;
  }
}

function inSet(set, x) {
  const whole = Math.trunc(x);
  const readable = x > -1 && (x === whole || set.code_rule !== EXACT)
    && (x >= 0 || set.code_rule === TRUNCATE) && whole < set.words.length * 32;
  if (!readable) return set.other_right;
  return ((set.words[Math.floor(whole / 32)] >>> whole % 32) & 1) === 1;
}

export function setCodes(set) {
  const codes = [];
  set.words.forEach((word, at) => {
    for (let bit = 0; bit < 32; bit++) if ((word >>> bit) & 1) codes.push(32 * at + bit);
  });
  return codes;
}

// The nodes from the root to a leaf, with the side that leads to it; by the tree alone, no row.
export function pathTo(tree, leaf) {
  const parent = new Map();
  tree.left.forEach((child, node) => parent.set(child, { node, right: false }));
  tree.right.forEach((child, node) => parent.set(child, { node, right: true }));
  const steps = [];
  for (let at = parent.get(~leaf); at; at = parent.get(at.node)) steps.unshift(at);
  return steps;
}

export const isSet = (tree, node) => tree.kind[node] === SET;
export const isEqual = (tree, node) => tree.kind[node] === EQUAL;
export const isGreater = (tree, node) => tree.relation[node] === GREATER;
