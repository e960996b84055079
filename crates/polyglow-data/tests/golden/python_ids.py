"""Writes python_ids.json: how Hugging Face's Python library encodes probes.json with each tokenizer.*.json here.

    pip install tokenizers && python python_ids.py
"""

import json
from pathlib import Path

import tokenizers

here = Path(__file__).parent
probes = json.loads((here / "probes.json").read_text(encoding="utf-8"))
result = {"tokenizers": tokenizers.__version__, "ids": {}}
for path in sorted(here.glob("tokenizer.*.json")):
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    # Text that spells a special token is text.
    tokenizer.encode_special_tokens = True
    kind = path.name.split(".")[1]
    result["ids"][kind] = [tokenizer.encode(probe, add_special_tokens=False).ids for probe in probes]
lines = json.dumps(result, separators=(",", ":")).replace("]],", "]],\n").replace("{", "{\n")
(here / "python_ids.json").write_text(lines + "\n", encoding="utf-8")
