const inNode = typeof process === "object" && Boolean(process.versions?.node);

/** A model in a worker, so that a page stays awake while it translates. See index.d.ts. */
export class Translator {
  #worker;
  #waiting = new Map();
  #calls = 0;
  // Why nothing can be asked any more.
  #ended;

  static async load({ config, tokenizer, targetTokenizer, weights }, { transfer = false } = {}) {
    const translator = new Translator();
    const at = new URL("worker.js", import.meta.url);
    const Worker = inNode ? (await import("node:worker_threads")).Worker : globalThis.Worker;
    const worker = (translator.#worker = new Worker(at, { type: "module" }));
    const failed = error => translator.#end(error);
    if (inNode) {
      worker.on("message", message => translator.#receive(message));
      worker.on("error", failed);
      worker.on("exit", code => failed(new Error(`the worker has ended with code ${code}`)));
      // Nobody has to wait for a translator that nobody asks.
      worker.unref();
    } else {
      worker.onmessage = ({ data }) => translator.#receive(data);
      worker.onerror = ({ message }) => failed(new Error(message || "the worker has failed"));
    }
    const bytes = [tokenizer, targetTokenizer, weights].filter(Boolean);
    const moved = transfer ? [...new Set(bytes.map(({ buffer }) => buffer))] : [];
    try {
      await translator.#ask("load", { config, tokenizer, targetTokenizer, weights }, { moved });
    } catch (error) {
      translator.close();
      throw error;
    }
    return translator;
  }

  static async fetch(folder, { onProgress } = {}) {
    const base = new URL(folder, globalThis.location?.href);
    if (!base.pathname.endsWith("/")) base.pathname += "/";
    const at = name => new URL(name, base);
    const get = async name => {
      const answer = await fetched(at(name));
      if (!answer.ok) throw new Error(`${at(name)}: ${answer.status} ${answer.statusText}`);
      return answer;
    };
    const { config, tokenizer, targetTokenizer, weights, bytes } = await (await get("model.json")).json();
    const whole = async name => new Uint8Array(await (await get(name)).arrayBuffer());
    const [text, source, target, values] = await Promise.all([
      get(config).then(answer => answer.text()),
      whole(tokenizer),
      targetTokenizer ? whole(targetTokenizer) : undefined,
      get(weights).then(answer => counted(answer, bytes, onProgress)),
    ]);
    return Translator.load({ config: text, tokenizer: source, targetTokenizer: target, weights: values }, { transfer: true });
  }

  translate(lines, { onProgress, ...options } = {}) {
    return this.#ask("translate", { lines, ...options }, { onProgress });
  }

  attention(line, translation) {
    return this.#ask("attention", { line, translation });
  }

  beam(line, beamSize = 4) {
    return this.#ask("beam", { line, beamSize });
  }

  parts(text) {
    return this.#ask("parts", { text });
  }

  join(text, translations) {
    return this.#ask("join", { text, translations });
  }

  close() {
    this.#end(new Error("the translator is closed"));
  }

  /** `moved`: buffers that the worker gets instead of copies. */
  #ask(call, given, { onProgress, moved = [] } = {}) {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#calls++;
    return new Promise((resolve, reject) => {
      // First, since it throws where something cannot be sent.
      this.#worker.postMessage({ id, call, given }, moved);
      this.#waiting.set(id, { resolve, reject, onProgress });
      if (inNode) this.#worker.ref();
    });
  }

  #receive({ id, found, error, progress, dead }) {
    const { resolve, reject, onProgress } = this.#waiting.get(id) ?? {};
    if (progress !== undefined) return onProgress?.(progress);
    if (dead) return this.#end(new Error(error));
    this.#waiting.delete(id);
    if (inNode && this.#waiting.size === 0) this.#worker.unref();
    return error === undefined ? resolve?.(found) : reject?.(new Error(error));
  }

  /** Ends the worker; what it has not answered fails, and so does all that it will be asked. */
  #end(error) {
    if (this.#ended) return;
    this.#ended = error;
    this.#worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

/** As `fetch`, which in Node reads no files. */
async function fetched(url) {
  if (!inNode || url.protocol !== "file:") return fetch(url);
  const { readFile } = await import("node:fs/promises");
  return new Response(await readFile(url));
}

/** The bytes of an answer; `onProgress` is told the share of `bytes` that has come. */
async function counted(answer, bytes, onProgress) {
  const whole = new Uint8Array(bytes), reader = answer.body.getReader();
  let place = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (place + value.length > bytes) throw new Error("the weights are longer than model.json says");
    whole.set(value, place);
    place += value.length;
    onProgress?.(place / bytes);
  }
  if (place < bytes) throw new Error("the weights are shorter than model.json says");
  return whole;
}
