// The thread that has the model. It is sent { id, call, given }, and answers { id, found } or { id, error, dead }; while it
// translates also { id, progress }.
import init, { Translator } from "./polyglow_web.js";

const inNode = typeof process === "object" && Boolean(process.versions?.node);
let translator, send;
// One call after the other, in the order in which they come.
let last = Promise.resolve();

const calls = {
  async load({ config, tokenizer, targetTokenizer, weights }) {
    const wasm = new URL("polyglow_web_bg.wasm", import.meta.url);
    await init({ module_or_path: inNode ? (await import("node:fs/promises")).readFile(wasm) : wasm });
    translator?.free();
    translator = new Translator(config, tokenizer, targetTokenizer, weights);
  },
  translate: (asked, id) => JSON.parse(translator.translate(JSON.stringify(asked), done => send({ id, progress: done }))),
  attention: ({ line, translation }) => JSON.parse(translator.attention(line, translation)),
  beam: ({ line, beamSize }) => JSON.parse(translator.beam(line, beamSize)),
  parts: ({ text }) => JSON.parse(translator.parts(text)),
  join: ({ text, translations }) => translator.join(text, JSON.stringify(translations)),
};

/** Whether the instance stopped where it was: after a panic, without memory, without stack. It cannot be asked again. */
function isDeadAfter(error) {
  return error instanceof WebAssembly.RuntimeError || error instanceof RangeError || error?.name === "InternalError";
}

function receive({ id, call, given }) {
  last = last.then(async () => {
    try {
      send({ id, found: await calls[call](given, id) });
    } catch (error) {
      const said = String(error?.message ?? error);
      if (!isDeadAfter(error)) return send({ id, error: said });
      send({ id, error: `the model has failed and answers no more: ${globalThis.polyglowPanic ?? said}`, dead: true });
    }
  });
}

if (inNode) {
  const { parentPort } = await import("node:worker_threads");
  send = message => parentPort.postMessage(message);
  parentPort.on("message", receive);
} else {
  send = message => self.postMessage(message);
  self.onmessage = ({ data }) => receive(data);
}
