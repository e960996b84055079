#!/usr/bin/env python3
"""How fast `polyglow serve` answers, and whether it stays right under a storm.

    pip install ctranslate2 tokenizers
    python scripts/bench_serve.py target/release/polyglow runs/my input.en rates
    python scripts/bench_serve.py target/release/polyglow runs/my input.en storm --requests 10000

With `--libretranslate PYTHON`, of an environment that has it, LibreTranslate takes part with the same weights: the run needs a shared
tokenizer of the kind `unigram`, and its package and any other must be installed in `ARGOS_PACKAGES_DIR`, since it asks the network
for more where there are fewer than two:

    polyglow export runs/my --to argos --out package
    ARGOS_PACKAGES_DIR=packages python -c "from argostranslate import package; package.install_from_path('package/....argosmodel')"

`rates` asks for single lines of a text, from 1, 8 and 64 clients at a time, each of which waits for its answer before it asks
again. The peer is CTranslate2 with the same weights and the same beam under a plain Python server (a thread for each request; one worker of
one thread for each core, which is its fastest way for small models). They take turns.

`storm` mixes requests with clients that go away, bodies that are broken, and readers that are slow, and compares every answer with
what `polyglow translate` writes: none may be lost, none may be another's, and memory may not grow.
"""

import argparse
import json
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

from measurement import describe, environment, machine, read_lines, table
from serving import free_port, languages, running

PEER = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json, ctranslate2
from tokenizers import Tokenizer
model, tokenizer, port, beam, threads = sys.argv[1:]
tokenizer = Tokenizer.from_file(tokenizer)
translator = ctranslate2.Translator(model, device="cpu", compute_type="float32", inter_threads=int(threads), intra_threads=1)
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One packet for an answer, and at once.
    wbufsize, disable_nagle_algorithm = 65536, True
    def log_message(self, *_):
        pass
    def do_POST(self):
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["q"]
        tokens = tokenizer.encode(text).tokens
        found = translator.translate_batch([tokens], beam_size=int(beam), min_decoding_length=0)[0].hypotheses[0]
        text = tokenizer.decode([tokenizer.token_to_id(token) for token in found])
        answer = json.dumps({"translatedText": text}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
class Server(ThreadingHTTPServer):
    request_queue_size = 128
Server(("127.0.0.1", int(port)), Handler).serve_forever()
"""

# It cuts texts into sentences with a model that it downloads; a text here is one sentence.
LIBRETRANSLATE = """
from argostranslate import translate
class Whole:
    def __init__(self, package):
        pass
    def split_sentences(self, text):
        return [text]
translate.MiniSBDSentencizer = Whole
from libretranslate.main import main
main()
"""


def ours(options, port):
    return [options.program, "-q", "serve", options.run, "--listen", f"127.0.0.1:{port}", "--beam-size", options.beam]


def peer(options, directory, port):
    model = pathlib.Path(directory) / "model"
    if not model.exists():
        subprocess.run([options.program, "export", options.run, "--to", "ctranslate2", "--verify", "0", "--out", model],
                       check=True, capture_output=True)
    return [sys.executable, "-c", PEER, model, options.run / "tokenizer.json", port, options.beam, options.threads]


def libretranslate(options, port, pair):
    return [options.libretranslate, "-c", LIBRETRANSLATE, "--host", "127.0.0.1", "--port", port, "--disable-web-ui", "--load-only",
            ",".join(pair)]


def load(port, lines, clients, seconds, pair):
    """Asks for so long; the seconds of each answer, and the words that came."""
    until, times, words, lock = time.perf_counter() + seconds, [], 0, threading.Lock()
    source, target = pair

    def client(number):
        nonlocal words
        lines_of_this = random.Random(number)
        connection = HTTPConnection("127.0.0.1", port)
        while time.perf_counter() < until:
            body = json.dumps({"q": lines_of_this.choice(lines), "source": source, "target": target})
            begin = time.perf_counter()
            connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = json.loads(answer.read())["translatedText"]
            with lock:
                times.append(time.perf_counter() - begin)
                words += len(text.split())

    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        for asking in [pool.submit(client, number) for number in range(clients)]:
            asking.result()
    return times, words, time.perf_counter() - started


def rates(options, lines):
    pair, rows = None, []
    with tempfile.TemporaryDirectory() as directory:
        for clients in (1, 8, 64):
            for name in ["polyglow", "CTranslate2"] + ["LibreTranslate"] * bool(options.libretranslate):
                times, words, seconds = [], 0, 0.0
                for _ in range(options.rounds):
                    port = free_port()
                    if name == "polyglow":
                        started = ours(options, port)
                    elif name == "CTranslate2":
                        started = peer(options, directory, port)
                    else:
                        started = libretranslate(options, port, pair)
                    with running(started, port, environment(options.threads), quiet=name != "polyglow"):
                        # Ours, which is first, says it.
                        pair = pair or languages(port)
                        load(port, lines, clients, 1, pair)
                        found = load(port, lines, clients, options.seconds, pair)
                    times, words, seconds = times + found[0], words + found[1], seconds + found[2]
                cut = statistics.quantiles(times, n=100)
                shown = [f"{1e3 * cut[place - 1]:.0f}" for place in (50, 95, 99)]
                rows.append([clients, name, f"{len(times) / seconds:.1f}", f"{words / seconds:.0f}", *shown])
                print(rows[-1], flush=True)
    print(table(["clients", "server", "requests/s", "words/s", "p50 ms", "p95 ms", "p99 ms"], rows))


def memory(process):
    """Bytes that a process holds."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


class Storm:
    """Clients of every kind."""

    def __init__(self, port, lines, expected, pair):
        self.port, self.lines, self.expected, self.pair = port, lines, expected, pair
        self.counts, self.wrong, self.lock = {}, [], threading.Lock()

    def request(self, number):
        """A whole request, as JSON or as a form, and what its answer must be."""
        chosen = random.Random(number)
        places = [chosen.randrange(len(self.lines)) for _ in range(chosen.choice([1, 1, 1, 5]))]
        texts, wanted = [self.lines[place] for place in places], [self.expected[place] for place in places]
        source, target = self.pair
        if len(texts) == 1 and chosen.random() < 0.5:
            fields = {"q": texts[0], "source": source, "target": target}
            return urllib.parse.urlencode(fields).encode(), "application/x-www-form-urlencoded", wanted[0]
        body = {"q": texts, "source": source, "target": target}
        return json.dumps(body).encode(), "application/json", wanted

    def ask(self, number):
        kind = random.Random(-number).choices(["whole", "gone", "broken", "slow"], [80, 7, 7, 6])[0]
        try:
            getattr(self, kind)(number)
        except Exception as error:  # Counted, and the storm goes on.
            with self.lock:
                self.wrong.append(f"{kind} {number}: {error!r}")
        with self.lock:
            self.counts[kind] = self.counts.get(kind, 0) + 1

    def whole(self, number, read=lambda answer: answer.read()):
        body, kind, wanted = self.request(number)
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("POST", "/translate", body, {"Content-Type": kind})
        answer = connection.getresponse()
        found = json.loads(read(answer))
        connection.close()
        if found.get("translatedText") != wanted:
            raise ValueError(f"status {answer.status}: {str(found)[:200]} in place of {str(wanted)[:200]}")

    def slow(self, number):
        def read(answer):
            found = b""
            while piece := answer.read(16):
                found += piece
                time.sleep(0.002)
            return found

        self.whole(number, read)

    def raw(self, body, length, path="/translate"):
        head = f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        connection.sendall(head.encode() + body)
        return connection

    def gone(self, number):
        body, _, _ = self.request(number)
        connection = self.raw(body, len(body) + number % 2)
        time.sleep(0.01 * (number % 3))
        connection.close()

    def broken(self, number):
        body = [b"{", b"\xff\xfe", b'{"q": 1}', b"[]", b'{"q": [[["a"]]]}', b"\0" * 100][number % 6]
        with self.raw(body, len(body)) as connection:
            status = connection.recv(4096).split(b" ", 2)[1]
        if status != b"400":
            raise ValueError(f"status {status} of {body!r}")


def storm(options, lines):
    done = subprocess.run([options.program, "-q", "translate", options.run, "--beam-size", str(options.beam)],
                          input="\n".join(lines) + "\n", check=True, capture_output=True, text=True)
    port = free_port()
    with running(ours(options, port), port, environment(options.threads)) as process:
        attack = Storm(port, lines, done.stdout.splitlines(), languages(port))
        held, started = [], time.perf_counter()
        with ThreadPoolExecutor(options.clients) as pool:
            for tenth in range(10):
                numbers = range(tenth * options.requests // 10, (tenth + 1) * options.requests // 10)
                list(pool.map(attack.ask, numbers))
                held.append(memory(process) / 2**20)
                print(f"{numbers.stop} requests, {held[-1]:.0f} MiB, {time.perf_counter() - started:.0f} s", flush=True)
        attack.whole(0)
        if process.poll() is not None:
            attack.wrong.append("the server has ended")
    print(f"{attack.counts}; memory from the second tenth to the last: {held[1]:.0f} to {held[-1]:.0f} MiB")
    for wrong in attack.wrong[:20]:
        print(f"wrong: {wrong}")
    if attack.wrong or held[-1] > 1.1 * held[1]:
        sys.exit(f"error: {len(attack.wrong)} answers are wrong, or memory grew")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path, help="sentences, one a line")
    parser.add_argument("part", choices=["rates", "storm"])
    parser.add_argument("--libretranslate", metavar="PYTHON")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=32, help="of the storm, at a time")
    options = parser.parse_args()
    print(describe(machine(options.threads)))
    # What is cut into sentences, or has several spaces, is another text than a line of `translate`.
    lines = [line for line in read_lines(options.text) if line == " ".join(line.split()) and len(line.split()) > 1]
    lines = [line for line in lines if not any(mark in line[:-1] for mark in ".!?…")]
    {"rates": rates, "storm": storm}[options.part](options, lines)


if __name__ == "__main__":
    main()
