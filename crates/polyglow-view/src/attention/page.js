"use strict";
// Draws one map large and all maps of its kind small. The data is what the page holds; nothing is fetched.
const data = JSON.parse(document.getElementById("data").textContent);
const place = (id) => document.getElementById(id);
const layers = place("layer"), heads = place("head"), words = place("words");
const hint = words.textContent;
const MEAN = -1;
let kind = ["cross", "encoder", "decoder"].find((kind) => data[kind].weights.length > 0);
let layer = data[kind].weights.length - 1, head = MEAN, pinned = null;

// Text whose order of reading follows from the text alone, wherever it stands.
const isolated = (text) => `\u2068${text}\u2069`;
const quoted = (text) => `“${isolated(text)}”`;

const svg = (name, attributes, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  return element;
};

const weights = (map, layer, head) => {
  const all = map.weights[layer];
  if (head !== MEAN) return all[head];
  return all[0].map((_, cell) => all.reduce((sum, one) => sum + one[cell], 0) / all.length);
};

const fill = (select, names, chosen) => {
  select.replaceChildren(...names.map(([value, name]) => new Option(name, value, false, value === chosen)));
};

const describe = (map, values, query, key) => {
  const width = map.keys.length;
  if (key !== null) {
    words.textContent = `${quoted(map.queries[query])} looks at ${quoted(map.keys[key])} with ${values[query * width + key].toFixed(3)}`;
    return;
  }
  const row = map.keys.map((name, index) => [values[query * width + index], name]);
  row.sort((left, right) => right[0] - left[0]);
  const best = row.slice(0, 4).map(([value, name]) => `${quoted(name)} ${value.toFixed(2)}`);
  words.textContent = `${quoted(map.queries[query])} looks most at ${best.join(", ")}`;
};

const drawMap = () => {
  const map = data[kind], values = weights(map, layer, head), width = map.keys.length, height = map.queries.length;
  const cell = Math.max(12, Math.min(34, Math.floor(900 / width)));
  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const longest = (names) => Math.min(160, 12 + Math.max(...names.map((name) => ruler.measureText(name).width)));
  // The names of columns lean to the right by 60 degrees.
  const left = longest(map.queries), top = longest(map.keys), lean = Math.max(8, top / 2 - cell / 2);
  const root = svg("svg", { width: left + width * cell + lean, height: top + height * cell + 8, role: "img" });
  const rows = [], columns = [], cells = [];
  const light = (query, key) => {
    rows.forEach((text, index) => text.classList.toggle("hot", index === query));
    columns.forEach((text, index) => text.classList.toggle("hot", index === key));
    cells.forEach((rect, index) => {
      rect.classList.toggle("hot", Math.floor(index / width) === query && (key === null || index % width === key));
    });
    if (query === null) words.textContent = hint; else describe(map, values, query, key);
  };
  const leave = () => light(pinned, null);
  map.queries.forEach((name, query) => {
    const text = svg("text", { x: left - 6, y: top + query * cell + cell / 2, dy: "0.32em", "text-anchor": "end" }, isolated(name));
    text.addEventListener("mouseenter", () => light(query, null));
    text.addEventListener("mouseleave", leave);
    text.addEventListener("click", () => { pinned = pinned === query ? null : query; leave(); });
    rows.push(text);
  });
  map.keys.forEach((name, key) => {
    const x = left + key * cell + cell / 2;
    columns.push(svg("text", { x, y: top - 6, transform: `rotate(-60 ${x} ${top - 6})` }, isolated(name)));
  });
  values.forEach((value, index) => {
    const query = Math.floor(index / width), key = index % width;
    const rect = svg("rect", { x: left + key * cell, y: top + query * cell, width: cell, height: cell, "fill-opacity": value });
    rect.addEventListener("mouseenter", () => light(query, key));
    rect.addEventListener("mouseleave", leave);
    rect.addEventListener("click", () => { pinned = pinned === query ? null : query; leave(); });
    cells.push(rect);
  });
  root.append(...cells, ...rows, ...columns);
  if (cell >= 26) {
    values.forEach((value, index) => {
      if (value < 0.1) return;
      const x = left + (index % width) * cell + cell / 2, y = top + Math.floor(index / width) * cell + cell / 2;
      root.append(svg("text", { x, y, dy: "0.32em", class: value > 0.5 ? "value strong" : "value" }, value.toFixed(2).replace("0.", ".")));
    });
  }
  place("map").replaceChildren(root);
  leave();
};

const drawAll = () => {
  const map = data[kind], width = map.keys.length, height = map.queries.length;
  const ink = getComputedStyle(document.documentElement).getPropertyValue("--mark").trim();
  const figures = map.weights.flatMap((all, layerIndex) => all.map((values, headIndex) => {
    const figure = document.createElement("figure"), canvas = document.createElement("canvas");
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext("2d");
    context.fillStyle = ink;
    values.forEach((value, index) => {
      context.globalAlpha = value;
      context.fillRect(index % width, Math.floor(index / width), 1, 1);
    });
    figure.append(canvas, `layer ${layerIndex + 1}, head ${headIndex + 1}`);
    figure.classList.toggle("chosen", layerIndex === layer && headIndex === head);
    figure.addEventListener("click", () => { layer = layerIndex; head = headIndex; draw(); });
    return figure;
  }));
  place("all").replaceChildren(...figures);
};

const draw = () => {
  const map = data[kind];
  layer = Math.min(layer, map.weights.length - 1);
  head = Math.min(head, map.weights[layer].length - 1);
  fill(layers, map.weights.map((_, index) => [index, String(index + 1)]), layer);
  fill(heads, [[MEAN, "mean"], ...map.weights[layer].map((_, index) => [index, String(index + 1)])], head);
  document.querySelectorAll("button[data-kind]").forEach((button) => {
    button.classList.toggle("chosen", button.dataset.kind === kind);
  });
  drawMap();
  drawAll();
};

document.querySelectorAll("button[data-kind]").forEach((button) => {
  button.addEventListener("click", () => { kind = button.dataset.kind; pinned = null; draw(); });
});
layers.addEventListener("change", () => { layer = Number(layers.value); draw(); });
heads.addEventListener("change", () => { head = Number(heads.value); draw(); });
document.addEventListener("keydown", (event) => {
  const steps = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
  if (steps === undefined || event.target.tagName === "SELECT") return;
  const map = data[kind];
  layer = Math.max(0, Math.min(map.weights.length - 1, layer + steps[0]));
  head = Math.max(MEAN, Math.min(map.weights[layer].length - 1, head + steps[1]));
  event.preventDefault();
  draw();
});
draw();
