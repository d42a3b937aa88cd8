"""Prints ids, logits and loss of a text that a GGUF file of Llama's architecture has, computed in float64 with NumPy.

The package gguf dequantizes the numbers, and tokenizers computes the ids. Rotations are those of llama.cpp for the rows as
the file has them: neighbouring columns are a pair.
Usage: python real_file.py FILE.gguf > expected.json (needs gguf, numpy, tokenizers)
"""
import json
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import Tokenizer

TEXT = "Before we proceed any further, hear me speak in 1623."
reader = GGUFReader(sys.argv[1])
tensors = {t.name: t for t in reader.tensors}


def meta(key):
    return reader.fields[key].contents()


def weight(name):
    t = tensors[name]
    return dequantize(t.data, t.tensor_type).reshape(tuple(reversed([int(n) for n in t.shape])))


assert meta("tokenizer.ggml.pre") == "smollm", "the script knows the pre-tokenizer smollm only"
tokens = meta("tokenizer.ggml.tokens")
ids = Tokenizer.from_str(json.dumps({
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "post_processor": None, "decoder": None,
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
              "fuse_unk": False, "byte_fallback": False, "vocab": {t: i for i, t in enumerate(tokens)}, "merges": meta("tokenizer.ggml.merges")},
})).encode(TEXT).ids

n, heads, shared = len(ids), meta("llama.attention.head_count"), meta("llama.attention.head_count_kv")
table = weight("token_embd.weight").astype(np.float64)
x, size = table[ids], meta("llama.rope.dimension_count")
angles = np.arange(n)[:, None] * meta("llama.rope.freq_base") ** (-np.arange(0, size, 2) / size)
cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]


def norm(x, scale):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + meta("llama.attention.layer_norm_rms_epsilon")) * scale


def turn(x):
    y = np.empty_like(x)
    y[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    y[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return y


for i in range(meta("llama.block_count")):
    h = norm(x, weight(f"blk.{i}.attn_norm.weight"))
    q, k, v = ((h @ weight(f"blk.{i}.attn_{part}.weight").T).reshape(n, -1, size) for part in "qkv")
    q, k, out = turn(q), turn(k), np.empty((n, heads, size))
    for a in range(heads):
        of = a // (heads // shared)
        scores = q[:, a] @ k[:, of].T / np.sqrt(size) + np.triu(np.full((n, n), -np.inf), 1)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        out[:, a] = p / p.sum(-1, keepdims=True) @ v[:, of]
    x = x + out.reshape(n, -1) @ weight(f"blk.{i}.attn_output.weight").T
    h = norm(x, weight(f"blk.{i}.ffn_norm.weight"))
    gate = h @ weight(f"blk.{i}.ffn_gate.weight").T
    x = x + (gate / (1 + np.exp(-gate)) * (h @ weight(f"blk.{i}.ffn_up.weight").T)) @ weight(f"blk.{i}.ffn_down.weight").T
logits = norm(x, weight("output_norm.weight")) @ table.T
total = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
loss = float((total[:-1] - logits[np.arange(n - 1), ids[1:]]).mean())
print(json.dumps({"text": TEXT, "ids": ids, "first": logits[0].tolist(), "last": logits[-1].tolist(), "loss": loss}))
