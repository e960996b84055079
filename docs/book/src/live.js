// The chapters that are alive: the quickstart's model, in a worker, and what it does with a sentence.
const examples = { source: "the old man sees a small dog", delay: 250 };

/** The model, which both chapters fetch when they are read. */
async function load(say) {
  const { Translator } = await import("./live/index.js");
  return Translator.fetch(new URL("./live/", import.meta.url), {
    onProgress: share => say(`The model is coming: ${Math.round(100 * share)} %`),
  });
}

/** An element with properties and children. */
function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

function labeled(text, field) {
  return make("label", {}, `${text} `, field);
}

/** Calls `work` for the last of several changes, and one after the other; what fails is said. */
function latest(work, say) {
  let timer, wanted = 0, running = Promise.resolve();
  return () => {
    clearTimeout(timer);
    const number = ++wanted;
    timer = setTimeout(() => {
      running = running.then(() => (number === wanted ? work() : undefined)).catch(error => say(error.message));
    }, examples.delay);
  };
}

/** A map of weights as a picture: a cell for each, with the tokens beside it if it is large. */
function picture({ queries, keys }, weights, large) {
  const cell = large ? 30 : 8, left = large ? 110 : 0, top = large ? 90 : 0;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const add = (name, attributes, text) => {
    const shape = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) shape.setAttribute(key, value);
    if (text !== undefined) shape.textContent = text;
    svg.append(shape);
    return shape;
  };
  const [width, height] = [left + cell * keys.length, top + cell * queries.length];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  add("rect", { x: left, y: top, width: width - left, height: height - top, class: "paper" });
  queries.forEach((query, row) => keys.forEach((key, column) => {
    const weight = weights[row * keys.length + column];
    const place = { x: left + cell * column, y: top + cell * row, width: cell, height: cell };
    const shape = add("rect", { ...place, class: "weight", "fill-opacity": weight.toFixed(3) });
    if (large) shape.append(title(`${query} looks at ${key}: ${Math.round(100 * weight)} %`));
  }));
  if (!large) return svg;
  queries.forEach((query, row) => add("text", { x: left - 6, y: top + cell * (row + 0.65), "text-anchor": "end" }, query));
  keys.forEach((key, column) => {
    const [x, y] = [left + cell * (column + 0.65), top - 6];
    add("text", { x, y, transform: `rotate(-60 ${x} ${y})` }, key);
  });
  return svg;
}

function title(text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", "title");
  element.textContent = text;
  return element;
}

/** Translates what is typed and shows every head. */
function attention(place) {
  const state = make("p", { className: "state", role: "status" });
  const say = text => (state.textContent = text);
  const input = make("input", { type: "text", value: examples.source, autocomplete: "off", spellcheck: false });
  const output = make("output", { lang: "de" });
  const kind = make("select", {}, new Option("decoder to source", "cross"), new Option("encoder", "encoder"),
    new Option("decoder", "decoder"));
  const large = make("div", { className: "large" }), heads = make("div", { className: "heads" });
  place.replaceChildren(labeled("English", input), labeled("German", output), labeled("attention", kind), state, large, heads);
  let maps, chosen = [0, 0], translator;

  function draw() {
    const map = maps[kind.value], [layer, head] = chosen;
    const name = (layer, head) => `layer ${layer + 1}, head ${head + 1}`;
    const svg = picture(map, map.weights[layer][head], true);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `attention of ${name(layer, head)}`);
    large.replaceChildren(make("h4", {}, name(layer, head)), svg);
    heads.replaceChildren(...map.weights.flatMap((all, layer) => all.map((weights, head) => {
      const button = make("button", { type: "button", title: name(layer, head) }, picture(map, weights, false));
      button.setAttribute("aria-label", name(layer, head));
      button.setAttribute("aria-pressed", String(layer === chosen[0] && head === chosen[1]));
      button.addEventListener("click", () => {
        chosen = [layer, head];
        draw();
        heads.querySelector("[aria-pressed=true]").focus();
      });
      return button;
    })));
  }

  const update = latest(async () => {
    const line = input.value.trim();
    if (!line) return;
    const [[best]] = await translator.translate([line], { beamSize: 4 });
    maps = await translator.attention(line, best.text);
    output.textContent = best.text;
    say("");
    draw();
  }, say);
  input.addEventListener("input", update);
  kind.addEventListener("change", () => maps && draw());
  load(say).then(found => {
    translator = found;
    // The last layer, where what is written is decided.
    chosen = [1, 0];
    update();
  }, () => say("The model is not here: this page is alive in the built site, scripts/site.sh."));
}

/** A beam search, position by position. */
function beam(place) {
  const state = make("p", { className: "state", role: "status" });
  const say = text => (state.textContent = text);
  const input = make("input", { type: "text", value: examples.source, autocomplete: "off", spellcheck: false });
  const width = make("input", { type: "range", min: 1, max: 6, value: 2 });
  const step = make("input", { type: "range", min: 0, max: 0, value: 0 });
  const [widthShown, stepShown] = [make("output"), make("output")];
  const table = make("table"), end = make("div");
  place.replaceChildren(labeled("English", input), make("span", {}, labeled("width", width), " ", widthShown),
    make("span", {}, labeled("position", step), " ", stepShown), state, table, end);
  let found, translator;

  function draw() {
    const position = Number(step.value), last = found.steps.length;
    stepShown.textContent = position < last ? `${position + 1} of ${last}` : "the end";
    const percent = logProb => `${(100 * Math.exp(logProb)).toPrecision(2)} %`;
    const header = make("tr", {}, ...["kept so far", "probability", "what may come next"].map(text => make("th", {}, text)));
    const kept = (row, next) => (found.steps[position + 1] ?? []).some(after =>
      after.tokens.length === row.tokens.length + 1 && after.tokens.at(-1) === next.token &&
      after.tokens.slice(0, -1).join("\0") === row.tokens.join("\0"));
    const rows = (found.steps[position] ?? []).map(row => make("tr", {},
      make("td", { lang: "de" }, row.text || "(nothing yet)"), make("td", {}, percent(row.logProb)),
      make("td", {}, ...row.next.slice(0, 6).map(next => make("span",
        { className: `next${kept(row, next) ? " kept" : ""}`, title: kept(row, next) ? "is kept" : "" },
        `${next.ends ? "(end)" : next.token} ${percent(next.logProb)}`)))));
    table.hidden = position >= last;
    table.replaceChildren(header, ...rows);
    end.hidden = position < last;
    end.replaceChildren(make("p", {}, "What has ended, ranked by the mean log-probability of a token:"),
      make("ol", {}, ...found.found.map(row =>
        make("li", { lang: "de" }, `${row.text} (${percent(row.logProb)}, score ${row.score.toFixed(3)})`))));
  }

  const update = latest(async () => {
    const line = input.value.trim();
    widthShown.textContent = width.value;
    if (!line) return;
    found = await translator.beam(line, Number(width.value));
    step.max = found.steps.length;
    say("");
    draw();
  }, say);
  input.addEventListener("input", update);
  width.addEventListener("input", update);
  step.addEventListener("input", () => found && draw());
  load(say).then(loaded => {
    translator = loaded;
    update();
  }, () => say("The model is not here: this page is alive in the built site, scripts/site.sh."));
}

for (const [id, show] of [["live-attention", attention], ["live-beam", beam]]) {
  const place = document.getElementById(id);
  if (place) show(place);
}
