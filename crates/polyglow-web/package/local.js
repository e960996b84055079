// In place of a server: answers what the page asks, with the model in this folder.
globalThis.polyglow = (() => {
  const own = { onprogress: () => {}, ask };
  const model = fetch("model.json").then(answer => answer.json());
  const ready = import("./index.js").then(({ Translator }) =>
    Translator.fetch("./", { onProgress: share => own.onprogress(`loading the model: ${Math.round(100 * share)} %`) }));
  ready.then(() => own.onprogress(""), () => {});
  navigator.serviceWorker?.register("service-worker.js").catch(() => {});

  async function ask(path, body) {
    const { languages, source, target } = await model;
    if (path === "languages") return languages.map(language => ({ ...language, name: nameOf(language.code) }));
    if (path === "frontend/settings") {
      return { charLimit: -1, apiKeys: false, language: { source: { code: source }, target: { code: target } } };
    }
    if (path !== "v1/translations") throw new Error(`no model in this page answers ${path}`);
    const translator = await ready;
    const { texts: [text], n_best: nBest, beam_size: beamSize, method, prefixes, attention } = body;
    const parts = prefixes ? [{ sentence: text }] : partsOf(text, source);
    const sentences = parts.flatMap(({ sentence }) => sentence ?? []);
    const found = await translator.translate(sentences, { nBest, beamSize, method, prefixes, attention });
    const segments = sentences.map((sentence, place) => ({ source: sentence, hypotheses: found[place] }));
    let place = 0;
    const whole = parts.map(({ kept, sentence }) => sentence ? found[place++][0].text : kept).join("");
    return { translations: [{ text: whole, segments }] };
  }

  function nameOf(code) {
    try {
      return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
    } catch {
      return code; // None that a browser knows.
    }
  }

  /** A text in sentences and what is between them. */
  function partsOf(text, language) {
    const split = new Intl.Segmenter(language, { granularity: "sentence" });
    return text.split(/(\r?\n)/).flatMap(line => [...split.segment(line)]).flatMap(({ segment }) => {
      const sentence = segment.trim(), start = segment.indexOf(sentence);
      if (!/[\p{L}\p{N}]/u.test(sentence)) return { kept: segment };
      return [{ kept: segment.slice(0, start) }, { sentence }, { kept: segment.slice(start + sentence.length) }];
    });
  }

  return own;
})();
