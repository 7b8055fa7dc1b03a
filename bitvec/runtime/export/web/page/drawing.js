// One tree as a picture, with the path of a row, and the path as a list of tests.

import { element, picture } from "./elements.js";
import { pathTo } from "./walk.js";

const MOST_LEAVES = 64;
const MOST_LEVELS = 24;
const LEAF_WIDTH = 128, LEVEL_HEIGHT = 84, BOX_WIDTH = 120, BOX_HEIGHT = 40, MARGIN = 10;

export function showSteps(list, tree, leaf, row, words) {
  const steps = pathTo(tree, leaf).map(({ node, right }) =>
    element("li", {}, words.step(tree, node, right, row)));
  const values = words.leaf(tree, leaf).join(", ");
  list.replaceChildren(...steps, element("li", { class: "exit" }, `leaf ${leaf}: ${values}`));
}

// Whether the tree was small enough to be drawn.
export function drawTree(place, tree, leaf, words) {
  const levels = depths(tree);
  const deepest = Math.max(0, ...levels) + 1;
  if (tree.v.length > MOST_LEAVES || deepest > MOST_LEVELS) {
    place.replaceChildren();
    place.hidden = true;
    return false;
  }
  const taken = new Set(pathTo(tree, leaf).map(({ node, right }) => 2 * node + Number(right)));
  const visited = new Set([...taken].map((step) => step >> 1));
  const column = middles(tree);
  const bottom = tree.left.length ? deepest : 0;
  const place_of = (child) => (child < 0
    ? { x: MARGIN + (~child + 0.5) * LEAF_WIDTH, y: MARGIN + bottom * LEVEL_HEIGHT }
    : { x: MARGIN + column[child] * LEAF_WIDTH, y: MARGIN + levels[child] * LEVEL_HEIGHT });

  const pale = [], bright = [], boxes = [];
  tree.left.forEach((left, node) => {
    const from = place_of(node);
    [left, tree.right[node]].forEach((child, right) => {
      const line = edge(from, place_of(child), taken.has(2 * node + right));
      (taken.has(2 * node + right) ? bright : pale).push(line);
    });
    const lines = [words.read(tree, node), words.askedShort(tree, node)];
    boxes.push(box(from, lines, visited.has(node) ? "node on" : "node"));
  });
  tree.v.forEach((_, at) => {
    const lines = [`leaf ${at}`, leafLine(words.leaf(tree, at), tree.v[at])];
    boxes.push(box(place_of(~at), lines, at === leaf ? "leaf on" : "leaf"));
  });
  const width = tree.v.length * LEAF_WIDTH + 2 * MARGIN;
  const height = bottom * LEVEL_HEIGHT + BOX_HEIGHT + 2 * MARGIN;
  const svg = picture("svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `A tree of ${tree.v.length} leaves; the row ends in leaf ${leaf}. `
      + "The list below tells its path.",
  }, ...pale, ...bright, ...boxes);
  place.hidden = false;
  place.replaceChildren(svg);
  place.scrollLeft = place_of(~leaf).x - place.clientWidth / 2;
  return true;
}

// How far below the root each node lies; a parent stands before its children.
function depths(tree) {
  const depth = new Array(tree.left.length).fill(0);
  tree.left.forEach((_, node) => {
    for (const child of [tree.left[node], tree.right[node]]) {
      if (child >= 0) depth[child] = depth[node] + 1;
    }
  });
  return depth;
}

// Where each node stands, in leaves from the left: between its children.
function middles(tree) {
  const middle = new Array(tree.left.length);
  const of = (child) => (child < 0 ? ~child + 0.5 : middle[child]);
  for (let node = tree.left.length - 1; node >= 0; node--) {
    middle[node] = (of(tree.left[node]) + of(tree.right[node])) / 2;
  }
  return middle;
}

function edge(from, to, taken) {
  const start = from.y + BOX_HEIGHT, half = (start + to.y) / 2;
  const d = `M${from.x},${start} C${from.x},${half} ${to.x},${half} ${to.x},${to.y}`;
  return picture("path", { d, class: taken ? "edge on" : "edge" });
}

function box({ x, y }, lines, kind) {
  const texts = lines.map((line, at) =>
    picture("text", { x, y: y + 16 + 15 * at, class: at === 0 ? "name" : "test" }, fitted(line)));
  return picture("g", { class: kind }, picture("title", {}, lines.join(" ")),
    picture("rect", {
      x: x - BOX_WIDTH / 2, y, width: BOX_WIDTH, height: BOX_HEIGHT,
      rx: kind.startsWith("leaf") ? 14 : 4,
    }), ...texts);
}

function fitted(text) {
  return text.length > 18 ? `${text.slice(0, 17)}…` : text;
}

// Of several outputs the highest says most.
function leafLine(parts, values) {
  if (parts.length === 1) return parts[0];
  const numbers = values.map(Number);
  return parts[numbers.indexOf(Math.max(...numbers))] ?? parts[0];
}
