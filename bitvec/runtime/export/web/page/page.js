// The page: a form for one row, the path through one tree, and files of rows.

import { showAnswer } from "./answer.js";
import { drawTree, showSteps } from "./drawing.js";
import { at, say } from "./elements.js";
import { FileRunner } from "./file.js";
import { Form } from "./form.js";
import { Model, readPage } from "./model.js";
import { Walker } from "./walk.js";
import { Words } from "./words.js";

class Page {
  constructor(page, model) {
    this.page = page;
    this.model = model;
    this.walker = new Walker(page);
    this.words = new Words(page, this.walker);
    this.asked = 0;
    this.row = this.leaves = null;
    this.wrong = new Set();
    this.form = new Form(at("form"), page, () => this.answer());
    this.files = new FileRunner(page, model, (values) => {
      this.form.fill(values);
      at("one").scrollIntoView();
      this.answer();
    });
    at("tree").value = page.first_tree;
    at("tree").max = page.trees.length - 1;
    at("tree").addEventListener("input", () => this.showTree());
    say("tree-range", `of 0 to ${page.trees.length - 1}. ${undrawn(page)}`);
    const names = page.has_names ? "a first line of feature names, in any order"
      : `${page.features.length} columns`;
    say("wanted", `It needs ${names}. Empty cells and nan are missing values.`);
  }

  // Answer to what the form holds now; what was typed since then wins.
  async answer() {
    const asked = ++this.asked;
    const row = this.form.row();
    busy(row !== null);
    if (row === null) {
      at("answer").replaceChildren("Some fields hold no number.");
      this.stale(true);
      return;
    }
    try {
      const values = this.model.array(row.length);
      values.set(row);
      const answer = await this.model.one(values);
      if (asked !== this.asked) return;
      [this.row, this.leaves] = [row, answer.leaves];
      this.stale(false);
      showAnswer(at("answer"), this.page, this.model, answer);
      this.check();
      this.showTree();
    } catch (error) {
      this.stale(true);
      say("problem", `The model could not answer: ${error.message ?? error}`);
    }
    busy(asked !== this.asked);
  }

  // Mark what does not belong to what the form holds now.
  stale(yes) {
    for (const id of ["answer", "path"]) at(id).classList.toggle("stale", yes);
  }

  // The walk over the trees must end in the leaves that the ONNX model names.
  check() {
    const trees = this.page.trees.map((tree, index) => ({ tree, index }));
    const wrong = trees.filter(({ tree, index }) =>
      tree && this.walker.exitLeaf(tree, this.row) !== this.leaves[index]).map(({ index }) => index);
    this.wrong = new Set(wrong);
    const shown = wrong.slice(0, 5).join(", ") + (wrong.length > 5 ? ", ..." : "");
    say("problem", wrong.length === 0 ? ""
      : `The trees and the ONNX model disagree on the exit leaf of this row (tree ${shown}): `
        + "they may be of two forests. Do not trust this page.");
  }

  showTree() {
    if (this.row === null) return;
    const index = at("tree").valueAsNumber;
    const known = Number.isInteger(index) && index >= 0 && index < this.page.trees.length;
    const tree = known ? this.page.trees[index] : undefined;
    at("tree").setAttribute("aria-invalid", String(!known));
    if (!tree || this.wrong.has(index)) {
      at("drawing").hidden = true;
      at("steps").replaceChildren();
      say("tree-note", tree ? "No path: the tree and the ONNX model disagree." : known
        ? `This tree was left out, to keep the page small; the row ends in its leaf ${this.leaves[index]}.`
        : `Enter a whole number from 0 to ${this.page.trees.length - 1}.`);
      return;
    }
    const leaf = this.leaves[index];
    const drawn = drawTree(at("drawing"), tree, leaf, this.words);
    const size = `${tree.left.length} tests, ${tree.v.length} leaves`;
    say("tree-note", drawn ? `${size}. A test that holds goes right.`
      : `${size}: too many to draw. A test that holds goes right.`);
    showSteps(at("steps"), tree, leaf, this.row, this.words);
  }
}

function busy(yes) {
  document.documentElement.dataset.busy = yes ? "yes" : "no";
}

// Which trees the page does not hold, as ranges.
function undrawn(page) {
  const ranges = [];
  page.trees.forEach((tree, index) => {
    if (tree !== null) return;
    if (ranges.at(-1)?.[1] === index - 1) ranges.at(-1)[1] = index;
    else ranges.push([index, index]);
  });
  const texts = ranges.map(([first, last]) => (first === last ? `${first}` : `${first} to ${last}`));
  const shown = texts.length > 8 ? [...texts.slice(0, 8), "..."] : texts;
  return texts.length ? `Left out, to keep the page small: ${shown.join(", ")}.` : "";
}

function facts(page) {
  const plural = (n, one) => `${n} ${one}${n === 1 ? "" : "s"}`;
  const kind = page.groups === null ? "regressor" : "classifier";
  const size = `${plural(page.trees.length, "tree")}, ${plural(page.features.length, "feature")}`;
  return `${page.source ? `From ${page.source}. ` : ""}A ${kind} of ${size}, compared in ${page.dtype}.`;
}

async function start() {
  try {
    const page = await readPage();
    say("facts", facts(page));
    const model = await Model.open(page, (share) => { at("loading").value = share; });
    document.querySelector("main").hidden = false;
    await new Page(page, model).answer();
    say("status", "");
    document.documentElement.dataset.state = "ready";
  } catch (error) {
    say("status", "");
    say("problem", `The model could not be loaded: ${error.message ?? error}`);
    document.documentElement.dataset.state = "failed";
  }
  at("loading").hidden = true;
}

start();
