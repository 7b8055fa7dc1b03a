// Tests and leaves in words.

import { exactText, shortText } from "./numbers.js";
import { isEqual, isGreater, isSet, setCodes } from "./walk.js";

const MOST_SHOWN = 6;

function listed(parts, separator) {
  if (parts.length <= MOST_SHOWN) return parts.join(separator);
  const more = parts.length - MOST_SHOWN + 1;
  return [...parts.slice(0, MOST_SHOWN - 1), `${more} more`].join(separator);
}

export class Words {
  constructor(page, walker) {
    this.page = page;
    this.walker = walker;
  }

  // What a node reads: one feature's name, or a weighted sum.
  read(tree, node) {
    if (tree.column[node] >= 0) return this.page.features[tree.column[node]].name;
    return tree.sums[node].map((sum) => this.sum(sum)).join(" + ");
  }

  sum(sum) {
    let text = listed(sum.columns.map((column, at) => {
      const name = this.page.features[column].name, code = sum.indicators?.[at] ?? -1;
      const term = code < 0 ? name : `[${name} = ${this.label(column, code)}]`;
      return sum.weights[at] === 1 ? term : `${shortText(sum.weights[at])} · ${term}`;
    }), " + ");
    if (sum.offset !== 0) text = `${text} − ${shortText(sum.offset)}`;
    if (sum.softplus) text = `softplus(${text})`;
    return sum.r === 1 ? text : `${shortText(sum.r)} · (${text})`;
  }

  // What the value is compared with: "> 2.45", "= 3", "in {a, b}".
  asked(tree, node, text = (b) => exactText(b, this.page.dtype)) {
    if (isSet(tree, node)) return `in {${listed(this.members(tree, node), ", ")}}`;
    const b = Number(tree.b[node]), column = tree.column[node];
    if (isEqual(tree, node)) return `= ${column < 0 ? shortText(b) : this.label(column, b)}`;
    return `${isGreater(tree, node) ? ">" : "≥"} ${text(b)}`;
  }

  // The same in few characters: for a drawing.
  askedShort(tree, node) {
    return this.asked(tree, node, shortText);
  }

  // The categories that go right at a set node: codes beyond a code book stand for none.
  members(tree, node) {
    const { labels } = this.page.features[tree.column[node]], set = tree.sets[node];
    const known = setCodes(set).filter((code) => labels === null || code < labels.length);
    const names = known.map((code) => this.label(tree.column[node], code));
    return set.other_right ? [...names, "any other"] : names;
  }

  // The same where the test does not hold.
  denied(tree, node) {
    if (isSet(tree, node)) return `not ${this.asked(tree, node)}`;
    const asked = this.asked(tree, node);
    if (isEqual(tree, node)) return asked.replace("=", "≠");
    return isGreater(tree, node) ? asked.replace(">", "≤") : asked.replace("≥", "<");
  }

  // One step of a path: "petal length (cm) = 4.9 > 2.45 → right".
  step(tree, node, right, row) {
    const { z, missing } = this.walker.value(tree, node, row);
    const side = right ? "right" : "left";
    const name = this.read(tree, node);
    if (missing || (Number.isNaN(z) && !isSet(tree, node))) return `${name} is missing → ${side}`;
    const column = tree.column[node];
    const value = column >= 0 ? this.label(column, z) : exactText(z, this.page.dtype);
    const test = right ? this.asked(tree, node) : this.denied(tree, node);
    if (isEqual(tree, node) && right) return `${name} ${test} → ${side}`;
    return `${name} = ${value} ${isSet(tree, node) ? "is " : ""}${test} → ${side}`;
  }

  // A value of a column: its category where it has a code book, else the number.
  label(column, value) {
    const labels = this.page.features[column].labels;
    if (labels === null) return exactText(value, this.page.dtype);
    if (value === -1) return "another category";
    return labels[value]?.text ?? exactText(value, this.page.dtype);
  }

  // What a leaf holds, one part for each output.
  leaf(tree, leaf) {
    const linear = tree.linear?.[leaf];
    if (linear) return [`linear: ${this.linear(linear)}`];
    const values = tree.v[leaf].map((value) => shortText(Number(value)));
    const names = this.page.leaf_names;
    if (tree.output !== null) {
      return [names.length > 1 ? `${names[tree.output[leaf]]}: ${values[0]}` : values[0]];
    }
    return names.length > 1 ? values.map((value, at) => `${names[at]}: ${value}`) : values;
  }

  linear({ constant, columns, weights }) {
    return constant.map((first, output) => {
      const terms = columns.map((column, at) =>
        `${shortText(Number(weights[at][output]))} · ${this.page.features[column].name}`);
      return listed([shortText(Number(first)), ...terms], " + ");
    }).join("; ");
  }
}
