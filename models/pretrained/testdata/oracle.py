"""Writes small random checkpoints, and what transformers and peft compute with them in float64.

For each folder: config.json and model.safetensors, as save_pretrained writes them, and
expected.safetensors: ids, labels, logits, and the gradient of each record's loss, RECORD.NAME.
Usage: python oracle.py (needs torch, transformers, peft)
"""
import os
import shutil

import peft
import torch
import transformers as t
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
IDS = torch.tensor([[3, 5, 7, 9, 11, 13], [3, 4, 15, 6, -1, -1], [3, 8, -1, -1, -1, -1]])
LABELS = torch.tensor([2, 0, 1])
SMALL = dict(vocab_size=16, max_position_embeddings=10, num_labels=3)
BERT = dict(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, **SMALL)


def write(name, model, lora=None, shards=None):
    torch.manual_seed(7)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.4)
    for n, p in model.named_parameters():
        if "LayerNorm.weight" in n or "layer_norm.weight" in n:
            p.data += 1
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, **({"max_shard_size": shards} if shards else {}))
    model = model.double().eval()
    expected = {"ids": IDS.float(), "labels": LABELS.float()}
    names = {n: n for n, _ in model.named_parameters()}
    if lora:
        model = peft.get_peft_model(model, peft.LoraConfig(task_type="SEQ_CLS", **lora))
        names = {}
        for n, p in model.named_parameters():
            own = n.removeprefix("base_model.model.").replace(".modules_to_save.default", "").replace(".base_layer", "")
            own = own.replace(".lora_A.default.", ".lora.A.").replace(".lora_B.default.", ".lora.B.")
            if "lora" in own:
                torch.nn.init.normal_(p, std=0.3)
                expected["value." + own] = p.detach().float().clone()
            if p.requires_grad:
                names[n] = own
    mask = (IDS >= 0).long()
    logits = model(input_ids=IDS.clamp(min=PADDING[name]), attention_mask=mask).logits
    expected["logits"] = logits.detach().float()
    for r in range(len(IDS)):
        model.zero_grad()
        out = model(input_ids=IDS[r:r + 1].clamp(min=PADDING[name]), attention_mask=mask[r:r + 1]).logits
        torch.nn.functional.cross_entropy(out, LABELS[r:r + 1]).backward()
        for n, p in model.named_parameters():
            if n in names:
                expected[f"{r}.{names[n]}"] = (p.grad if p.grad is not None else torch.zeros_like(p)).float().clone()
    save_file(expected, os.path.join(folder, "expected.safetensors"))


PADDING = {"bert": 0, "bert-tanh": 0, "roberta": 1, "distilbert": 0, "lora": 0}
write("bert", t.BertForSequenceClassification(t.BertConfig(**BERT)), shards="3KB")
write("bert-tanh", t.BertForSequenceClassification(t.BertConfig(**BERT, hidden_act="gelu_new")))
write("roberta", t.RobertaForSequenceClassification(t.RobertaConfig(type_vocab_size=1, pad_token_id=1, **BERT)))
write("distilbert", t.DistilBertForSequenceClassification(t.DistilBertConfig(dim=8, n_layers=2, n_heads=2, hidden_dim=12, **SMALL)))
write("lora", t.BertForSequenceClassification(t.BertConfig(**BERT)), lora=dict(r=3, lora_alpha=6, target_modules=["query", "value"], modules_to_save=["classifier", "pooler"]))
