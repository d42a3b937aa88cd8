"""Prints what transformers computes with a GGUF file, whose numbers it dequantizes: ids, logits and loss of a text.

Usage: python real_file.py FILE.gguf > expected.json (needs torch, transformers, gguf)
"""
import json
import os
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXT = "First Citizen:\nBefore we proceed any further, hear me speak. It is 1623, isn't it?"
folder, file = os.path.split(os.path.abspath(sys.argv[1]))
ids = AutoTokenizer.from_pretrained(folder, gguf_file=file)(TEXT, add_special_tokens=False)["input_ids"]
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
with torch.no_grad():
    logits = model(torch.tensor([ids])).logits[0]
loss = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:])).item()
print(json.dumps({"text": TEXT, "ids": ids, "first": logits[0].tolist(), "last": logits[-1].tolist(), "loss": loss}))
