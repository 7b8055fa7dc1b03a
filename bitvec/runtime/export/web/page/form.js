// The form: one field for each feature, with an explicit way to say that a value is missing.

import { element } from "./elements.js";
import { exactText, parseNumber } from "./numbers.js";
import { rounding } from "./walk.js";

const MISSING = "missing", OTHER = "-1";

export class Form {
  constructor(form, page, onChange) {
    this.dtype = page.dtype;
    this.round = rounding(page.dtype);
    this.fields = page.features.map((feature, at) => field(feature, at));
    form.append(...this.fields.map((own) => own.box));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => onChange());
  }

  // The row as numbers, or null where a field holds no number; such fields are marked.
  row() {
    const values = this.fields.map((own) => {
      const value = own.read();
      const wrong = value === undefined;
      own.input.setAttribute("aria-invalid", String(wrong));
      own.complaint.textContent = wrong ? "Enter a number, or tick missing." : "";
      return wrong ? undefined : this.round(value);
    });
    return values.includes(undefined) ? null : values;
  }

  fill(values) {
    this.fields.forEach((own, at) => own.write(values[at], exactText(values[at], this.dtype)));
  }
}

function field(feature, at) {
  const id = `feature-${at}`;
  const label = element("label", { for: id }, feature.name);
  if (!feature.used) label.append(element("span", { class: "quiet" }, " (no tree reads it)"));
  const complaint = element("span", { class: "complaint", id: `${id}-complaint` });
  const parts = feature.labels === null ? number(id, feature) : choice(id, feature);
  const box = element("div", { class: "field" }, label, parts.controls, complaint);
  return { box, complaint, ...parts };
}

function number(id, feature) {
  const input = element("input", {
    id, type: "text", inputmode: "decimal", value: feature.start, spellcheck: "false",
    "aria-describedby": `${id}-complaint`,
  });
  const missing = element("input", { id: `${id}-missing`, type: "checkbox" });
  const tick = element("label", { class: "tick", for: `${id}-missing` }, missing, " missing");
  missing.setAttribute("aria-label", `${feature.name} is missing`);
  const follow = () => { input.disabled = missing.checked; };
  missing.addEventListener("change", follow);
  return {
    input,
    controls: element("div", { class: "pair" }, input, tick),
    read: () => (missing.checked ? NaN : parseNumber(input.value)),
    write(value, text) {
      missing.checked = Number.isNaN(value);
      if (!missing.checked) input.value = text;
      follow();
    },
  };
}

function choice(id, feature) {
  const options = feature.labels.map((label, code) =>
    element("option", { value: String(code) }, label.text));
  options.push(element("option", { value: OTHER }, "another category"));
  options.push(element("option", { value: MISSING }, "missing"));
  const input = element("select", { id, "aria-describedby": `${id}-complaint` }, ...options);
  return {
    input,
    controls: element("div", { class: "pair" }, input),
    read: () => (input.value === MISSING ? NaN : Number(input.value)),
    write(value) {
      input.value = Number.isNaN(value) ? MISSING : String(value);
    },
  };
}
