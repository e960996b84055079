#!/usr/bin/env python3
"""What a token would cost at least if a page searched with WebGPU: the products of a decoder, and the answer that each token waits for.

    pip install playwright
    python scripts/bench_webgpu.py                        # Chromium with its software driver, SwiftShader
    python scripts/bench_webgpu.py --hardware             # with the GPU of this machine

Not a translator: it launches as many kernels as one token of a Transformer's decoder takes with a cache (one sentence, greedy), with
real products of weights in f32 and stand-ins for the rest (norms, attention, the choice of a token), and reads four bytes back, as a
search must before it can begin the next token. `web_test.mjs` has the time of whole sentences with WebAssembly to compare with.
"""

import argparse
import contextlib
import http.server
import threading

from playwright.sync_api import sync_playwright

from measurement import spread, table, written

PAGE = """async ({ layers, width, inner, vocabulary, tokens, rounds }) => {
  const adapter = await navigator.gpu?.requestAdapter();
  if (!adapter) throw new Error("this browser gives no WebGPU adapter");
  const device = await adapter.requestDevice();
  const buffer = (floats, usage = 0) => device.createBuffer({ size: 4 * floats, usage: GPUBufferUsage.STORAGE | usage });
  // A row of weights for each workgroup.
  const product = device.createShaderModule({ code: `
    override terms: u32;
    @group(0) @binding(0) var<storage, read> weights: array<vec4f>;
    @group(0) @binding(1) var<storage, read> input: array<vec4f>;
    @group(0) @binding(2) var<storage, read_write> output: array<f32>;
    var<workgroup> sums: array<f32, 64>;
    @compute @workgroup_size(64) fn main(@builtin(workgroup_id) row: vec3u, @builtin(local_invocation_index) lane: u32) {
      var sum = 0.0;
      for (var term = lane; term < terms / 4; term += 64) { sum += dot(weights[row.x * (terms / 4) + term], input[term]); }
      sums[lane] = sum;
      for (var half = 32u; half > 0; half /= 2) {
        workgroupBarrier();
        if (lane < half) { sums[lane] += sums[lane + half]; }
      }
      if (lane == 0) { output[row.x] = sums[0]; }
    }` });
  const other = device.createShaderModule({ code: `
    @group(0) @binding(0) var<storage, read_write> values: array<f32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) place: vec3u) { values[place.x] *= 0.5; }` });
  const [left, right] = [buffer(vocabulary + inner, GPUBufferUsage.COPY_SRC), buffer(vocabulary + inner, GPUBufferUsage.COPY_SRC)];
  const small = device.createComputePipeline({ layout: "auto", compute: { module: other } });
  const smallGroup = device.createBindGroup({ layout: small.getBindGroupLayout(0), entries: [{ binding: 0, resource: { buffer: left } }] });
  const pipelines = new Map();
  const launches = [];
  const multiply = (rows, terms) => {
    if (!pipelines.has(terms)) {
      pipelines.set(terms, device.createComputePipeline({ layout: "auto", compute: { module: product, constants: { terms } } }));
    }
    const pipeline = pipelines.get(terms), [from, to] = launches.length % 2 ? [right, left] : [left, right];
    const resources = [buffer(rows * terms), from, to];
    const entries = resources.map((buffer, binding) => ({ binding, resource: { buffer } }));
    launches.push({ pipeline, group: device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }), groups: rows });
  };
  const rest = count => {
    for (let number = 0; number < count; number++) launches.push({ pipeline: small, group: smallGroup, groups: width / 64 });
  };
  for (let layer = 0; layer < layers; layer++) {
    for (const [rows, terms] of [[3 * width, width], [width, width], [width, width], [width, width], [inner, width], [width, inner]]) {
      multiply(rows, terms);
    }
    rest(5); // three norms, two attentions
  }
  multiply(vocabulary, width);
  rest(2); // the last norm, and the choice

  const answer = device.createBuffer({ size: 4, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  const token = async chosen => {
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    for (const { pipeline, group, groups } of chosen) {
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(groups);
    }
    pass.end();
    encoder.copyBufferToBuffer(left, 0, answer, 0, 4);
    device.queue.submit([encoder.finish()]);
    await answer.mapAsync(GPUMapMode.READ);
    answer.unmap();
  };
  const stand = launches.map(() => ({ pipeline: small, group: smallGroup, groups: 1 }));
  const subjects = { "only the answer": [], "kernels that do nothing": stand, "the products of a token": launches };
  const times = Object.fromEntries(Object.keys(subjects).map(name => [name, []]));
  for (let round = -1; round < rounds; round++) {
    for (const [name, chosen] of Object.entries(subjects)) {
      const start = performance.now();
      for (let number = 0; number < tokens; number++) await token(chosen);
      // The first round compiles.
      if (round >= 0) times[name].push((performance.now() - start) / tokens);
    }
  }
  const { vendor, architecture, description } = adapter.info;
  return { adapter: `${vendor} ${architecture} ${description}`.trim(), launches: launches.length, times };
}"""


class Empty(http.server.BaseHTTPRequestHandler):
    """WebGPU is only for pages of a secure origin, such as localhost."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def empty_page():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hardware", action="store_true", help="take this machine's GPU")
    parser.add_argument("--layers", type=int, default=6, help="of the decoder (default: base's, %(default)s)")
    parser.add_argument("--width", type=int, default=512, help="d_model (default: %(default)s)")
    parser.add_argument("--inner", type=int, default=2048, help="d_ff (default: %(default)s)")
    parser.add_argument("--vocabulary", type=int, default=8000, help="tokens (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=25, help="in a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--chromium", default="/usr/bin/chromium", help="(default: %(default)s)")
    arguments = parser.parse_args()
    flags = ["--no-sandbox", "--enable-unsafe-webgpu", "--disable-background-networking"]
    if not arguments.hardware:
        flags.append("--use-webgpu-adapter=swiftshader")
    sizes = {name: getattr(arguments, name) for name in ("layers", "width", "inner", "vocabulary", "tokens", "rounds")}
    with empty_page() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=arguments.chromium, args=flags)
        page = browser.new_page()
        page.goto(address)
        found = page.evaluate(PAGE, sizes)
        version = browser.version
        browser.close()
    print(f"Chromium {version}, {found['adapter']}, {found['launches']} launches a token\n")
    rows = [[name, written(spread(times), 2)] for name, times in found["times"].items()]
    print(table(["a token", "ms"], rows))


if __name__ == "__main__":
    main()
