// Whether the package polyglow-web translates as the program does, and how fast, in Node:
//
//     scripts/web.sh
//     polyglow export RUN --to web --out page --package target/polyglow-web
//     polyglow translate RUN lines.txt > expected.txt      # with `--checkpoint int8` for a page in 8 bits
//     node scripts/web_test.mjs page lines.txt expected.txt [BEAM]
//
// Every line is translated by itself, as a page would; then all of them together. Fails if any is different.
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { resolve } from "node:path";

const [folder, source, expected, beam] = process.argv.slice(2);
if (!expected) throw new Error("usage: node scripts/web_test.mjs FOLDER LINES EXPECTED [BEAM]");
const at = name => resolve(folder, name);
const lines = async path => (await readFile(path, "utf8")).replace(/\n$/, "").split("\n");
const [asked, wanted] = await Promise.all([lines(source), lines(expected)]);
const options = beam ? { beamSize: Number(beam) } : {};

const { Translator } = await import(pathToFileURL(at("index.js")));
const described = JSON.parse(await readFile(at("model.json"), "utf8"));
const read = name => (name ? readFile(at(name)) : undefined);
const started = performance.now();
const [config, tokenizer, targetTokenizer, weights] = await Promise.all(
  [described.config, described.tokenizer, described.targetTokenizer, described.weights].map(read));
const translator = await Translator.load({ config: config.toString(), tokenizer, targetTokenizer, weights });
const ready = performance.now() - started;

const alone = [], times = [];
for (const line of asked) {
  const start = performance.now();
  alone.push((await translator.translate([line], options))[0][0].text);
  times.push(performance.now() - start);
}
let told = 0;
const start = performance.now();
const together = (await translator.translate(asked, { ...options, onProgress: done => (told = done) })).map(([best]) => best.text);
const whole = performance.now() - start;
translator.close();

const equal = found => found.filter((text, place) => text === wanted[place]).length;
times.sort((left, right) => left - right);
const at95 = times[Math.floor(0.95 * times.length)];
console.log(`ready in ${ready.toFixed(0)} ms; a line ${times[times.length >> 1].toFixed(1)} ms (median), ${at95.toFixed(1)} ms (95 %); ` +
  `together ${(whole / asked.length).toFixed(1)} ms a line`);
console.log(`equal: ${equal(alone)} and ${equal(together)} of ${wanted.length}; told of ${told}`);
if (equal(alone) < wanted.length || equal(together) < wanted.length || told !== asked.length) process.exit(1);
