// Walks rows down trees with the page's own code: node walk.mjs WALK.JS JOB, exit leaves to stdout.
//
// JOB is JSON: a list of {page, rows}, a page as in forest.json, numbers of rows as JSON has them.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { pathTo, Walker } = await import(pathToFileURL(process.argv[2]));
const jobs = JSON.parse(readFileSync(process.argv[3], "utf8"));
const answers = jobs.map(({ page, rows }) => {
  const walker = new Walker(page);
  return rows.map((texts) => {
    const row = texts.map((value) => walker.round(Number(value)));
    return page.trees.map((tree) => {
      const leaf = walker.exitLeaf(tree, row);
      for (const { node, right } of pathTo(tree, leaf)) {
        if (walker.goesRight(tree, node, row) !== right) return -1;
      }
      return leaf;
    });
  });
});
process.stdout.write(JSON.stringify(answers));
