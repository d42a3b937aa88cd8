"""Writes a GPT-2 of random weights whose tokenizer has the pieces of a public row template.

It reads and writes rows of five columns of UCI Adult, as in docs/results.md.
Usage: python checkpoint.py FOLDER (needs torch and transformers)
"""

import json
import os
import sys

import torch
import transformers

PIECES = [
    "<end>", "age: ", ", education-num: ", ", sex: ", ", hours-per-week: ", ", income-per-year: ",
    "Female", "Male", "<=50K", ">50K", "?", *"0123456789",
]  # fmt: skip


def main(folder):
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        vocab_size=len(PIECES), n_embd=32, n_layer=1, n_head=4, n_positions=32, bos_token_id=0, eos_token_id=0
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    tokens = [{"id": i, "content": piece, "special": i == 0} for i, piece in enumerate(PIECES)]
    tokenizer = {"added_tokens": tokens, "model": {"type": "BPE", "merges": [], "vocab": {piece: i for i, piece in enumerate(PIECES)}}}
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump(tokenizer, file, indent=1)


main(sys.argv[1])
