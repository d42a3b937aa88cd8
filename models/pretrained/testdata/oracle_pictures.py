"""Writes small random checkpoints for pictures, and what transformers and peft compute with them in float64.

For each folder: config.json and model.safetensors as save_pretrained writes them, preprocessor_config.json, and
expected.safetensors: pixels from 0 to 1, labels, logits, and the gradient of each record's loss, RECORD.NAME, with the names of
model.safetensors. The preprocessor of transformers scales the pixels.
Usage: python oracle_pictures.py [FOLDER...] (needs torch, transformers, peft, pillow)
"""
import os
import shutil
import sys

import numpy as np
import peft
import torch
import transformers as t
from safetensors.torch import save_file
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

HERE = os.path.dirname(os.path.abspath(__file__))
LABELS = torch.tensor([2, 0, 1])
SMALL = dict(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, patch_size=4, num_labels=3)
IN_FILES = [(".layers.", ".encoder.layer."), (".attention.q_proj", ".attention.attention.query"), (".attention.k_proj", ".attention.attention.key"),
            (".attention.v_proj", ".attention.attention.value"), (".attention.o_proj", ".attention.output.dense"), (".mlp.fc1", ".intermediate.dense"),
            (".mlp.fc2", ".output.dense")]


def name_in_file(name):
    own = name.removeprefix("base_model.model.").replace(".modules_to_save.default", "").replace(".base_layer", "")
    own = own.replace(".lora_A.default.", ".lora.A.").replace(".lora_B.default.", ".lora.B.")
    for module, file in IN_FILES:
        own = own.replace(module, file)
    return own


def write(name, model, processor, lora=None):
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    torch.manual_seed(7)
    for n, p in model.named_parameters():
        torch.nn.init.normal_(p, std=0.4)
        if "layernorm" in n and n.endswith("weight"):
            p.data += 1
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    height, width = model.config.image_size
    pictures = np.random.default_rng(7).integers(0, 256, (len(LABELS), height, width, 3), dtype=np.uint8)
    expected = {"pixels": torch.tensor(pictures.transpose(0, 3, 1, 2).copy() / 255, dtype=torch.float32), "labels": LABELS.float()}
    x = torch.tensor(np.stack(processor(list(pictures))["pixel_values"])).double()
    model = model.double().eval()
    if lora:
        model = peft.get_peft_model(model, peft.LoraConfig(**lora))
        for n, p in model.named_parameters():
            if "lora" in n:
                torch.nn.init.normal_(p, std=0.3)
                expected["value." + name_in_file(n)] = p.detach().float().clone()
    expected["logits"] = model(pixel_values=x).logits.detach().float()
    for r in range(len(LABELS)):
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(pixel_values=x[r:r + 1]).logits, LABELS[r:r + 1]).backward()
        for n, p in model.named_parameters():
            if p.requires_grad:
                expected[f"{r}.{name_in_file(n)}"] = p.grad.float().clone()
    save_file(expected, os.path.join(folder, "expected.safetensors"))


SIZE = dict(size={"height": 8, "width": 12})
vit = ViTImageProcessorPil(image_mean=[0.5, 0.4, 0.3], image_std=[0.5, 0.25, 0.125], **SIZE)
write("vit", t.ViTForImageClassification(t.ViTConfig(image_size=[8, 12], **SMALL)), vit)
write("vit-lora", t.ViTForImageClassification(t.ViTConfig(image_size=[8, 12], qkv_bias=False, **SMALL)), vit,
      lora=dict(r=3, lora_alpha=6, target_modules=["q_proj", "v_proj"], modules_to_save=["classifier"]))
deit = DeiTImageProcessorPil(do_center_crop=False, **SIZE)
write("deit", t.DeiTForImageClassification(t.DeiTConfig(image_size=[8, 12], **SMALL)), deit)
write("deit-teacher", t.DeiTForImageClassificationWithTeacher(t.DeiTConfig(image_size=[8, 12], **SMALL)), deit)
