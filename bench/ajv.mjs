// The ajv side of `cargo xtask bench contracts`. Arguments: a folder with `schema-N.json` and `document-N.json`, and how
// many there are. Compiles each schema once, then answers each line `N ITERATIONS` with the nanoseconds that so many
// JSON.parse + validate of document N took, and each line `N ?TEXT` with whether that text is valid.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import Ajv from "ajv/dist/2020.js";

const [folder, count] = process.argv.slice(2);
const ajv = new Ajv({ validateFormats: false, strictTypes: false });
const entries = Array.from({ length: Number(count) }, (_, n) => {
  const schema = JSON.parse(readFileSync(`${folder}/schema-${n}.json`, "utf8"));
  delete schema.$id; // several documents share a contract, and ajv refuses to compile one id twice
  return { text: readFileSync(`${folder}/document-${n}.json`, "utf8"), validate: ajv.compile(schema) };
});

const run = ({ text, validate }, iterations) => {
  let valid = 0;
  const start = process.hrtime.bigint();
  for (let i = 0; i < iterations; i += 1) {
    if (validate(JSON.parse(text))) valid += 1;
  }
  const elapsed = process.hrtime.bigint() - start;
  if (valid !== iterations) throw new Error("a document was refused while it was timed");
  return elapsed;
};

for await (const line of createInterface({ input: process.stdin })) {
  const [, n, judge, rest] = /^(\d+) (\?)?(.*)$/s.exec(line);
  const entry = entries[Number(n)];
  console.log(judge ? String(entry.validate(JSON.parse(rest))) : String(run(entry, Number(rest))));
}
