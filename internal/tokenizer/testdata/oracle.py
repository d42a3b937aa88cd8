"""Writes the ids of the lines of a JSON file, for each tokenizer.json: python oracle.py LINES FILE..."""
import json
import sys
import time

from tokenizers import Tokenizer

with open(sys.argv[1], encoding="utf-8") as f:
    lines = json.load(f)
for path in sys.argv[2:]:
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    begin = time.perf_counter()
    with open(path + ".ids", "w") as f:
        for i in range(0, len(lines), 10000):
            for e in tokenizer.encode_batch(lines[i:i + 10000]):
                f.write(" ".join(map(str, e.ids)) + "\n")
    print(path, len(lines) / (time.perf_counter() - begin), "lines a second", file=sys.stderr)
    tokenizer.enable_truncation(12)
    with open(path + ".pairs", "w") as f:
        for a, b in zip(lines[:1000:2], lines[1:1000:2]):
            e = tokenizer.encode(a, b)
            f.write(" ".join(map(str, e.ids + e.type_ids)) + "\n")
