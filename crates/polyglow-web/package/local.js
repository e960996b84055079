// In place of a server: answers what the page asks, with the model in this folder.
globalThis.polyglow = (() => {
  if (location.protocol === "file:") {
    const error = new Error("This page has to be served, since browsers let no file fetch others: `python3 -m http.server` in its folder.");
    return { onprogress: () => {}, ready: new Promise(() => {}), ask: () => Promise.reject(error) };
  }
  const model = fetch("model.json").then(answer => {
    if (!answer.ok) throw new Error(`model.json: ${answer.status} ${answer.statusText}`);
    return answer.json();
  });
  const ready = import("./index.js").then(({ Translator }) => Translator.fetch("./", { onProgress: tell })).catch(error => {
    throw new Error(`The model could not be loaded, open the page again: ${error.message}`);
  });
  const own = { onprogress: () => {}, ready, ask };
  ready.then(() => own.onprogress(""), () => {});
  navigator.serviceWorker?.register("service-worker.js").catch(() => {});
  // One question after the other, so that what nobody waits for any more is not begun.
  let last = Promise.resolve(), told = -1;

  /** In steps that can be read out. */
  function tell(share) {
    const tenths = Math.floor(10 * share);
    if (tenths > told) own.onprogress(`loading the model: ${10 * (told = tenths)} %`);
  }

  async function ask(path, body, signal) {
    const { languages, source, target } = await model;
    if (path === "languages") return languages.map(language => ({ ...language, name: nameOf(language.code) }));
    if (path === "frontend/settings") {
      return { charLimit: -1, apiKeys: false, language: { source: { code: source }, target: { code: target } } };
    }
    if (path !== "v1/translations") throw new Error(`no model in this page answers ${path}`);
    const translator = await ready;
    const answer = last.then(() => {
      if (signal?.aborted) throw signal.reason;
      return translate(translator, body);
    });
    last = answer.catch(() => {});
    return answer;
  }

  /** What a server answers to `v1/translations`. */
  async function translate(translator, { texts: [text], n_best: nBest, beam_size: beamSize, method, prefixes, attention }) {
    const parts = prefixes ? [{ sentence: text }] : await translator.parts(text);
    const sentences = parts.flatMap(({ sentence }) => sentence ?? []);
    const found = await translator.translate(sentences, { nBest, beamSize, method, prefixes, attention });
    const segments = sentences.map((sentence, index) => ({ source: sentence, hypotheses: found[index] }));
    const best = found.map(([{ text }]) => text);
    const whole = prefixes ? best[0] : await translator.join(text, best);
    return { translations: [{ text: whole, segments }] };
  }

  function nameOf(code) {
    try {
      return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
    } catch {
      return code; // None that a browser knows.
    }
  }

  return own;
})();
