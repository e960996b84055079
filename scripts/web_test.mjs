// Whether the package polyglow-web translates as the program does, and how fast, in Node:
//
//     scripts/web.sh
//     polyglow export RUN --to web --out page --package target/polyglow-web
//     polyglow translate RUN lines.txt > expected.txt      # with `--checkpoint int8` for a page in 8 bits
//     node scripts/web_test.mjs page lines.txt expected.txt [BEAM] [--most-ready MS] [--most-line MS]
//
// Every line is translated by itself, as a page would; then all of them together. Fails if any is different, if the model is not
// ready after `--most-ready` milliseconds, if half of the lines take more than `--most-line`, or if a translator that is closed or
// has failed does not say so. The limits are those of the quickstart's model.
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const number = { type: "string" };
const { values: limits, positionals: [folder, source, expected, beam] } = parseArgs({
  allowPositionals: true,
  options: { "most-ready": { ...number, default: "1000" }, "most-line": { ...number, default: "15" } },
});
if (!expected) throw new Error("usage: node scripts/web_test.mjs FOLDER LINES EXPECTED [BEAM] [--most-ready MS] [--most-line MS]");
const at = name => resolve(folder, name);
const lines = async path => (await readFile(path, "utf8")).replace(/\n$/, "").split("\n");
const [asked, wanted] = await Promise.all([lines(source), lines(expected)]);
const options = beam ? { beamSize: Number(beam) } : {};
const wrong = [];

function check(holds, otherwise) {
  if (!holds) wrong.push(otherwise);
}

/** What a promise fails with, within a second. */
function failure(promise) {
  const late = new Promise(resolve => setTimeout(resolve, 1000, "no answer within a second"));
  return Promise.race([late, promise.then(() => "no error", error => error.message)]);
}

const { Translator } = await import(pathToFileURL(at("index.js")));
const described = JSON.parse(await readFile(at("model.json"), "utf8"));
// As `fetch` has them, each in a buffer of its own.
const read = async name => (name ? Uint8Array.from(await readFile(at(name))) : undefined);
const files = await Promise.all([described.tokenizer, described.targetTokenizer, described.weights].map(read));
const config = await readFile(at(described.config), "utf8");
const started = performance.now();
const [tokenizer, targetTokenizer, weights] = files;
const translator = await Translator.load({ config, tokenizer, targetTokenizer, weights }, { transfer: true });
const ready = performance.now() - started;
check(weights.length === 0, "the weights were copied");

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

const equal = found => found.filter((text, place) => text === wanted[place]).length;
times.sort((left, right) => left - right);
const median = times[times.length >> 1], at95 = times[Math.floor(0.95 * times.length)];
console.log(`ready in ${ready.toFixed(0)} ms; a line ${median.toFixed(1)} ms (median), ${at95.toFixed(1)} ms (95 %), ` +
  `${beam ? `beam ${beam}` : "the run's beam"}; together ${(whole / asked.length).toFixed(1)} ms a line`);
console.log(`equal: ${equal(alone)} and ${equal(together)} of ${wanted.length}; told of ${told}`);
check(equal(alone) === wanted.length && equal(together) === wanted.length, "some lines are not the program's");
check(told === asked.length, `told of ${told} lines of ${asked.length}`);
check(ready <= Number(limits["most-ready"]), `ready after ${ready.toFixed(0)} ms, above ${limits["most-ready"]}`);
check(median <= Number(limits["most-line"]), `a line takes ${median.toFixed(1)} ms, above ${limits["most-line"]}`);

// From files, too, as a browser would fetch them; without a slash at the end.
const fetched = await Translator.fetch(pathToFileURL(resolve(folder)));
const [[{ text: first }]] = await fetched.translate([asked[0]], options);
check(first === alone[0], `fetched, it translates the first line as \`${first}\``);
fetched.close();

const parts = await translator.parts(" Mr. Smith met J. Doe. They left!\r\n");
const cut = [{ kept: " " }, { sentence: "Mr. Smith met J. Doe." }, { kept: " " }, { sentence: "They left!" }, { kept: "\r\n" }];
check(JSON.stringify(parts) === JSON.stringify(cut), `cut into ${JSON.stringify(parts)}`);
const joined = await translator.join(" 你好。再见。\r\n", ["Hello.", "Bye."]);
check(joined === " Hello. Bye.\r\n", `joined to ${JSON.stringify(joined)}`);

// Whoever asks too late is told, too.
check((await failure(translator.translate(["a"], { beamSize: 0 }))).includes("beamSize"), "a beam of 0 is accepted");
const cutShort = failure(translator.translate(asked, options));
translator.close();
for (const promise of [cutShort, failure(translator.parts("a"))]) {
  const error = await promise;
  check(error === "the translator is closed", `after \`close\`: ${error}`);
}
const damaged = await failure(Translator.load({ config, tokenizer: new Uint8Array(4), weights: new Uint8Array(4) }));
check(!damaged.startsWith("no "), `damaged files: ${damaged}`);

// A worker that panics, and one that ends: the package with something else in the place of the model.
const broken = await mkdtemp(join(tmpdir(), "polyglow-web-"));
try {
  for (const name of ["index.js", "worker.js"]) await copyFile(at(name), join(broken, name));
  await writeFile(join(broken, "package.json"), `{ "type": "module" }`);
  await writeFile(join(broken, "polyglow_web_bg.wasm"), "");
  await writeFile(join(broken, "polyglow_web.js"), `export default () => {};
    export class Translator {
      translate() { globalThis.polyglowPanic = "panicked at somewhere"; throw new WebAssembly.RuntimeError("unreachable"); }
      beam() { process.exit(3); }
    }`);
  const { Translator } = await import(pathToFileURL(join(broken, "index.js")));
  for (const [ask, reason] of [["translate", "panicked at somewhere"], ["beam", "ended with code 3"]]) {
    const translator = await Translator.load({});
    const calls = [translator[ask](["a"]), translator.attention("a", "b")].map(failure);
    for (const error of [...(await Promise.all(calls)), await failure(translator.parts("a"))]) {
      check(error.includes(reason), `a worker that fails in \`${ask}\`: ${error}`);
    }
  }
} finally {
  await rm(broken, { recursive: true });
}

for (const what of wrong) console.error(`error: ${what}`);
process.exit(wrong.length ? 1 : 0);
