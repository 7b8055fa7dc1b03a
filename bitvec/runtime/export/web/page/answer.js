// The answer to one row: labels with probabilities as bars, or the values of a regressor.

import { element } from "./elements.js";

const MOST_BARS = 20;

export function showAnswer(place, page, model, answer) {
  if (page.groups === null) {
    const names = page.leaf_names;
    place.replaceChildren(...answer.values.map((value, at) => element("p", { class: "value" },
      names.length > 1 ? element("span", { class: "quiet" }, `output ${names[at]}: `) : "",
      element("output", { class: "prediction" }, model.text(value)))));
    return;
  }
  place.replaceChildren(...page.groups.map((group, at) => {
    const title = page.groups.length > 1 ? `target ${at}: ` : "";
    return element("div", { class: "group" },
      element("p", { class: "value" }, element("span", { class: "quiet" }, title),
        element("output", { class: "prediction" }, answer.labels[at])),
      bars(group, answer.probabilities[at], model));
  }));
}

// The likeliest classes in the order of the classes.
function bars(group, probabilities, model) {
  const order = probabilities.map((_, at) => at).sort((a, b) => probabilities[b] - probabilities[a]);
  const shown = order.slice(0, MOST_BARS).sort((a, b) => a - b);
  const rows = shown.map((at) => {
    const share = probabilities[at];
    const bar = element("div", { class: "bar" });
    bar.style.width = `${100 * Math.min(1, Math.max(0, share || 0))}%`;
    return element("tr", {}, element("th", { scope: "row", title: group.classes[at] }, group.classes[at]),
      element("td", {}, element("div", { class: "track", "aria-hidden": "true" }, bar)),
      element("td", { class: "number", title: model.text(share) }, share.toFixed(4)));
  });
  const table = element("table", { class: "bars" },
    element("caption", { class: "quiet" }, "probabilities"), element("tbody", {}, ...rows));
  if (shown.length === order.length) return table;
  const more = `and ${order.length - shown.length} less likely classes`;
  return element("div", {}, table, element("p", { class: "quiet" }, more));
}
