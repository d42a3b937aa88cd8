"""Writes the ids of the lines of a JSON file, for each tokenizer.json: python oracle.py LINES FILE...

FILE.ids has the ids of each line, FILE.pairs those of pairs of lines, and FILE.rate the lines of a second of processor time.
The rate is that of encode_batch_fast on one thread, which computes no offsets.
"""
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
    used = 0
    with open(path + ".ids", "w") as f:
        for i in range(0, len(lines), 10000):
            begin = time.process_time()
            encodings = tokenizer.encode_batch_fast(lines[i:i + 10000])
            used += time.process_time() - begin
            for e in encodings:
                f.write(" ".join(map(str, e.ids)) + "\n")
    with open(path + ".rate", "w") as f:
        f.write(str(len(lines) / used))
    tokenizer.enable_truncation(12)
    with open(path + ".pairs", "w") as f:
        for a, b in zip(lines[:1000:2], lines[1:1000:2]):
            e = tokenizer.encode(a, b)
            f.write(" ".join(map(str, e.ids + e.type_ids)) + "\n")
