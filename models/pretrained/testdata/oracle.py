"""Writes small random checkpoints, and what transformers and peft compute with them in float64.

For each folder: config.json and model.safetensors, as save_pretrained writes them, and
expected.safetensors: ids, labels, logits, and the gradient of each record's loss, RECORD.NAME.
The labels of a network that predicts the next id are the ids, one step earlier. NAME-pair has segments, NAME-packed
several texts in a record, each computed by itself, and NAME-masked labels for some steps of an encoder.
Usage: python oracle.py [FOLDER...] (needs torch, transformers, peft)
"""
import json
import os
import shutil
import sys
import types

import peft
import torch
import transformers as t
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
IDS = torch.tensor([[3, 5, 7, 9, 11, 13], [3, 4, 15, 6, -1, -1], [3, 8, -1, -1, -1, -1]])
LABELS = torch.tensor([2, 0, 1])
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 0], [0, 1, 0, 0, 0, 0]])
TEXTS = [[(0, 3), (3, 4), (4, 6)], [(0, 2), (2, 4)], [(0, 2)]]  # of the records of NAME-packed
MASKED = torch.tensor([[-1, 4, -1, -1, 9, 1], [-1, -1, 15, -1, -1, -1], [3, 8, -1, -1, -1, -1]])
SMALL = dict(vocab_size=16, max_position_embeddings=10, num_labels=3)
BERT = dict(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, **SMALL)


def outputs(model, name, record, padding, steps=None):
    """The logits of a record's first steps: [1, classes], or [1, steps, vocabulary]."""
    ids = IDS[record:record + 1, :steps]
    whole = dict(input_ids=torch.where(ids < 0, padding, ids), attention_mask=(ids >= 0).long())
    if name.endswith("-pair"):
        whole["token_type_ids"] = SEGMENTS[record:record + 1]
    if not name.endswith("-packed"):
        return model(**whole).logits
    parts = [model(input_ids=ids[:, a:b]).logits for a, b in TEXTS[record]]
    rest = ids.shape[1] - TEXTS[record][-1][1]
    return torch.nn.functional.pad(torch.cat(parts, dim=1), (0, 0, 0, rest))


def write(name, make, lora=None, shards=None, padding=0, task="SEQ_CLS"):
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    torch.manual_seed(7)
    model = make()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.4)
    for n, p in model.named_parameters():
        if any(part in n for part in ("LayerNorm.weight", "layer_norm.weight", "layernorm.weight", "ln_", "norm.weight")) and not name.startswith("gemma"):
            p.data += 1
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, **({"max_shard_size": shards} if shards else {}))
    model = model.double().eval()
    steps = task != "SEQ_CLS"
    labels = {"CAUSAL_LM": torch.cat([IDS[:, 1:], torch.full((len(IDS), 1), -1)], dim=1), "MASKED_LM": MASKED, "SEQ_CLS": LABELS}[task]
    marks = torch.zeros_like(IDS)
    if name.endswith("-pair"):
        marks = SEGMENTS
    if name.endswith("-packed"):
        labels = labels.clone()
        for r, texts in enumerate(TEXTS):
            for a, b in texts:
                labels[r, b - 1], marks[r, a] = -1, 1
    expected = {"ids": IDS.float(), "labels": labels.float()}
    if marks.any():
        expected["marks"] = marks.float()
    names = {n: n for n, _ in model.named_parameters()}
    if lora:
        model = peft.get_peft_model(model, peft.LoraConfig(task_type=task, **lora))
        names = {}
        for n, p in model.named_parameters():
            own = n.removeprefix("base_model.model.").replace(".modules_to_save.default", "").replace(".base_layer", "")
            own = own.replace(".lora_A.default.", ".lora.A.").replace(".lora_B.default.", ".lora.B.")
            if "lora" in own:
                torch.nn.init.normal_(p, std=0.3)
                expected["value." + own] = p.detach().float().clone()
            if p.requires_grad:
                names[n] = own
    logits = torch.cat([outputs(model, name, r, padding) for r in range(len(IDS))])
    if steps:
        logits = logits * (IDS >= 0).unsqueeze(-1)
    expected["logits"] = logits.detach().float()
    for r in range(len(IDS)):
        model.zero_grad()
        # A step that sees nothing but padding has NaNs in eager attention, so padding is left out there.
        n = int((IDS[r] >= 0).sum()) if name.startswith("gemma2") else IDS.shape[1]
        out = outputs(model, name, r, padding, n)
        if steps:  # the mean over all steps, of which those without a label count 0
            loss = torch.nn.functional.cross_entropy(out[0], labels[r][:n], ignore_index=-1, reduction="sum") / IDS.shape[1]
        else:
            loss = torch.nn.functional.cross_entropy(out, labels[r:r + 1])
        loss.backward()
        for n, p in model.named_parameters():
            if n in names:
                expected[f"{r}.{names[n]}"] = (p.grad if p.grad is not None else torch.zeros_like(p)).float().clone()
    save_file(expected, os.path.join(folder, "expected.safetensors"))


class Pooled(torch.nn.Module):
    """A linear layer behind pooled steps, saved as sentence-transformers does."""

    def __init__(self, mode):
        super().__init__()
        width = 8 * (1 + BERT["num_hidden_layers"]) if mode == "layers" else 8
        self.mode, self.bert, self.classifier = mode, t.BertModel(t.BertConfig(**BERT)), torch.nn.Linear(width, 3)

    def forward(self, input_ids, attention_mask):
        found = self.bert(input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=self.mode == "layers")
        steps = torch.cat(found.hidden_states, -1) if self.mode == "layers" else found.last_hidden_state
        shares = attention_mask / attention_mask.sum(1, keepdim=True)
        pooled = steps[:, 0] if self.mode == "cls_token" else (steps * shares.unsqueeze(-1).to(steps)).sum(1)
        return types.SimpleNamespace(logits=self.classifier(pooled))

    def save_pretrained(self, folder):
        self.bert.save_pretrained(folder)
        if self.mode == "layers":  # no program has such a head: it is with the weights
            file = os.path.join(folder, "model.safetensors")
            head = {"classifier." + n: p.detach() for n, p in self.classifier.named_parameters()}
            save_file({**load_file(file), **head}, file, {"format": "pt"})
            return
        modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense")]
        files = {
            "modules.json": [dict(idx=i, name=str(i), path=p, type="sentence_transformers.models." + m) for i, (p, m) in enumerate(modules)],
            "1_Pooling/config.json": {"word_embedding_dimension": 8, **{"pooling_mode_" + m: m == self.mode for m in ("cls_token", "mean_tokens")}},
            "2_Dense/config.json": dict(in_features=8, out_features=3, bias=True, activation_function="torch.nn.modules.linear.Identity"),
        }
        for path, content in files.items():
            path = os.path.join(folder, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                json.dump(content, file)
        save_file({"linear." + n: p.detach().clone() for n, p in self.classifier.named_parameters()}, os.path.join(folder, "2_Dense/model.safetensors"))


DECODER = dict(vocab_size=17, hidden_size=8, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=12,
               max_position_embeddings=10, num_labels=3, pad_token_id=16, bos_token_id=3, eos_token_id=4)
GPT2 = dict(vocab_size=17, n_embd=8, n_layer=2, n_head=2, n_positions=10, num_labels=3, pad_token_id=16, bos_token_id=3, eos_token_id=4)
QUERY_VALUE = dict(r=3, lora_alpha=6, target_modules=["query", "value"], modules_to_save=["classifier", "pooler"])


def decoder(name, family, config, **options):
    """A decoder has two folders: one for texts, NAME, and one for the next id, NAME-next. Some have NAME-packed."""
    write(name, lambda: getattr(t, family + "ForSequenceClassification")(config), padding=16)
    next_id = getattr(t, family + ("LMHeadModel" if family == "GPT2" else "ForCausalLM"))
    write(name + "-next", lambda: next_id(config), padding=16, task="CAUSAL_LM", **options)
    if name in ("gpt2", "llama"):
        write(name + "-packed", lambda: next_id(config), padding=16, task="CAUSAL_LM")


write("bert", lambda: t.BertForSequenceClassification(t.BertConfig(**BERT)), shards="3KB")
write("bert-tanh", lambda: t.BertForSequenceClassification(t.BertConfig(**BERT, hidden_act="gelu_new")))
write("bert-mean", lambda: Pooled("mean_tokens"))
write("bert-first", lambda: Pooled("cls_token"))
write("bert-layers", lambda: Pooled("layers"))
write("roberta", lambda: t.RobertaForSequenceClassification(t.RobertaConfig(type_vocab_size=1, pad_token_id=1, **BERT)), padding=1)
write("distilbert", lambda: t.DistilBertForSequenceClassification(t.DistilBertConfig(dim=8, n_layers=2, n_heads=2, hidden_dim=12, **SMALL)))
write("lora", lambda: t.BertForSequenceClassification(t.BertConfig(**BERT)), lora=QUERY_VALUE)
write("lora-last", lambda: t.BertForSequenceClassification(t.BertConfig(**BERT)), lora=dict(layers_to_transform=[1], **QUERY_VALUE))
EVERYWHERE = dict(QUERY_VALUE, target_modules=["query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense"])
write("lora-all", lambda: t.BertForSequenceClassification(t.BertConfig(**BERT)), lora=EVERYWHERE)
OUTPUTS = dict(QUERY_VALUE, target_modules=["output.dense"])
write("lora-outputs", lambda: t.BertForSequenceClassification(t.BertConfig(**BERT)), lora=OUTPUTS)
write("bert-pair", lambda: t.BertForSequenceClassification(t.BertConfig(**BERT)))
write("bert-masked", lambda: t.BertForMaskedLM(t.BertConfig(**BERT)), task="MASKED_LM")
write("roberta-masked", lambda: t.RobertaForMaskedLM(t.RobertaConfig(type_vocab_size=1, pad_token_id=1, **BERT)), padding=1, task="MASKED_LM")
write("distilbert-masked", lambda: t.DistilBertForMaskedLM(t.DistilBertConfig(dim=8, n_layers=2, n_heads=2, hidden_dim=12, **SMALL)), task="MASKED_LM")
decoder("gpt2", "GPT2", t.GPT2Config(**GPT2))
decoder("llama", "Llama", t.LlamaConfig(**DECODER, rope_parameters={"rope_type": "default", "rope_theta": 50.0}),
        lora=dict(r=3, lora_alpha=6, target_modules=["q_proj", "v_proj"]))
# With these numbers the first frequency stays, the second is between the bounds, and the others are divided.
decoder("llama3", "Llama", t.LlamaConfig(**DECODER, head_dim=8, rope_parameters={
    "rope_type": "llama3", "rope_theta": 50.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 40}))
decoder("mistral", "Mistral", t.MistralConfig(**DECODER, head_dim=4, sliding_window=3))
decoder("qwen2", "Qwen2", t.Qwen2Config(**DECODER, tie_word_embeddings=True))
decoder("qwen3", "Qwen3", t.Qwen3Config(**DECODER, head_dim=4))
decoder("gemma", "Gemma", t.GemmaConfig(**DECODER, head_dim=4))
# Capped scores need eager: the other ways to compute attention ignore the cap.
decoder("gemma2", "Gemma2", t.Gemma2Config(**DECODER, head_dim=4, sliding_window=3, query_pre_attn_scalar=6, attn_logit_softcapping=1.5,
                                           final_logit_softcapping=2.0, attn_implementation="eager"))
GEMMA3 = t.Gemma3TextConfig(**DECODER, head_dim=4, sliding_window=3, query_pre_attn_scalar=6, layer_types=["sliding_attention", "full_attention"],
                            rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
                                             "full_attention": {"rope_type": "linear", "rope_theta": 90.0, "factor": 2.0}})
write("gemma3", lambda: t.Gemma3TextForSequenceClassification(GEMMA3), padding=16)
write("gemma3-next", lambda: t.Gemma3ForCausalLM(GEMMA3), padding=16, task="CAUSAL_LM")
