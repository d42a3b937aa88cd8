"""Writes llama.gguf: the checkpoint llama-next as llama.cpp's converter writes it, in F32; and llama3.gguf, without blocks.

The converter reorders the rows of queries and keys. For Llama 3.1 it writes what divides the frequencies. Usage: python llama_cpp.py (needs gguf, safetensors)
"""
import math
import os

import numpy as np
from gguf import GGUFWriter
from safetensors.numpy import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
x = load_file(os.path.join(HERE, "llama-next", "model.safetensors"))
w = GGUFWriter(os.path.join(HERE, "llama.gguf"), "llama")
w.add_block_count(2)
w.add_context_length(10)
w.add_embedding_length(8)
w.add_feed_forward_length(12)
w.add_head_count(4)
w.add_head_count_kv(2)
w.add_layer_norm_rms_eps(1e-6)
w.add_rope_freq_base(50.0)
w.add_rope_dimension_count(2)
w.add_eos_token_id(4)


def interleaved(rows, heads):
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
w.add_tensor("token_embd.weight", x["model.embed_tokens.weight"])
w.add_tensor("output_norm.weight", x["model.norm.weight"])
w.add_tensor("output.weight", x["lm_head.weight"])
for i in range(2):
    for name, own in NAMES.items():
        v = x[f"model.layers.{i}.{name}.weight"]
        if own in ("attn_q", "attn_k"):
            v = interleaved(v, 4 if own == "attn_q" else 2)
        w.add_tensor(f"blk.{i}.{own}.weight", v)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()

w = GGUFWriter(os.path.join(HERE, "llama3.gguf"), "llama")
w.add_block_count(1)
w.add_context_length(131072)
w.add_embedding_length(16)
w.add_feed_forward_length(12)
w.add_head_count(1)
w.add_head_count_kv(1)
w.add_layer_norm_rms_eps(1e-5)
w.add_rope_freq_base(500000.0)
w.add_rope_dimension_count(16)
divisors, factor, low, high, steps = [], 8.0, 1.0, 4.0, 8192
for j in range(0, 16, 2):
    wavelength = 2 * math.pi * 500000.0 ** (j / 16)
    if wavelength < steps / high:
        divisors.append(1.0)
    elif wavelength > steps / low:
        divisors.append(factor)
    else:
        smooth = (steps / wavelength - low) / (high - low)
        divisors.append(1 / ((1 - smooth) / factor + smooth))
w.add_tensor("rope_freqs.weight", np.array(divisors, dtype=np.float32))
w.add_tensor("token_embd.weight", np.zeros((17, 16), dtype=np.float32))
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
