"""What scripts that start servers share."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def running(command, port, env=None, quiet=False):
    """A server that answers at the port, and its process."""
    process = subprocess.Popen([str(word) for word in command], env=env or os.environ, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL if quiet else None)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            if process.poll() is not None:
                sys.exit(f"error: {command[0]} ended before it listened")
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait()


def languages(port):
    """Source and target of a server with one run."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/languages") as answer:
        found = json.load(answer)
    return next((language["code"], code) for language in found for code in language["targets"] if code != language["code"])
