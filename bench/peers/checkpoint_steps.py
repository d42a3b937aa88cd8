"""Steps that train a checkpoint: dptrain, PyTorch's ordinary step, and Opacus' private step in two ways.

    python3 bench/peers/checkpoint_steps.py DIR

DIR is a folder of transformers with a BERT, such as that of all-MiniLM-L6-v2. Every program runs in a process of
its own, in turns, with the same number of threads, texts of the same number of ids without padding, a linear head
behind the mean of the steps, and SGD. Adapters have rank 8 and the layers of queries and values.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

TRAINED = {"whole network": "", "lora=8": "lora=8"}
PROGRAMS = ["dptrain, private", "PyTorch", "Opacus, hooks", "Opacus, ghost"]


def build(folder, adapters, private):
    import torch
    from transformers import BertModel

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = BertModel.from_pretrained(
                folder, add_pooling_layer=False, attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0,
                attn_implementation="eager" if private else "sdpa")  # Opacus has no hooks for the other one
            self.head = torch.nn.Linear(self.encoder.config.hidden_size, 2)

        def forward(self, ids):
            texts, steps = ids.shape  # Opacus needs positions and segments with an axis of texts
            return self.head(self.encoder(
                input_ids=ids, position_ids=torch.arange(steps).repeat(texts, 1),
                token_type_ids=torch.zeros_like(ids)).last_hidden_state.mean(1))

    network = Classifier()
    if adapters:
        from peft import LoraConfig, get_peft_model
        network.encoder = get_peft_model(
            network.encoder, LoraConfig(r=8, lora_alpha=16, target_modules=["query", "value"]))
    return network.train()


def milliseconds(program, folder, adapters, texts, ids, steps):
    """Returns the duration of each step of a program in this process."""
    import torch

    torch.manual_seed(1)
    private = program.startswith("Opacus")
    network = build(folder, adapters, private)
    optimizer = torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=0.01)
    loss = torch.nn.CrossEntropyLoss()
    rows, labels = torch.randint(1000, (texts, ids)), torch.randint(2, (texts,))
    if private:
        from opacus import PrivacyEngine
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows, labels), batch_size=texts)
        options = {"grad_sample_mode": "ghost", "criterion": loss} if program.endswith("ghost") else {}
        made = PrivacyEngine().make_private(module=network, optimizer=optimizer, data_loader=loader,
                                            noise_multiplier=1.1, max_grad_norm=1.0, poisson_sampling=False, **options)
        network, optimizer = made[:2]
        loss = made[2] if options else loss
    durations = []
    for _ in range(steps + 2):
        began = time.perf_counter()
        optimizer.zero_grad()
        loss(network(rows), labels).backward()
        optimizer.step()
        durations.append(1e3 * (time.perf_counter() - began))
    return durations[2:]


def measure(program, folder, trained, o, binary):
    """Returns the median duration of a step of a program in a process of its own."""
    if program.startswith("dptrain"):
        model = folder + ",pool=mean" + ("," + TRAINED[trained] if TRAINED[trained] else "")
        command = [binary, "-test.run", "^$", "-test.bench", "Checkpoint/private", "-test.benchtime", f"{o.steps}x",
                   "-checkpoint", model, "-texts", str(o.texts), "-ids", str(o.ids)]
        return float(re.search(r"([\d.]+) ms/step", subprocess.run(command, check=True, text=True, capture_output=True).stdout)[1])
    command = [sys.executable, __file__, folder, "--one", program, "--trained", trained, "--texts", str(o.texts),
               "--ids", str(o.ids), "--steps", str(o.steps)]
    return float(subprocess.run(command, check=True, text=True, capture_output=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--texts", type=int, default=16, help="in a step")
    parser.add_argument("--ids", type=int, default=128, help="of a text")
    parser.add_argument("--steps", type=int, default=8, help="of a program in a turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--one", choices=PROGRAMS, help=argparse.SUPPRESS)
    parser.add_argument("--trained", choices=TRAINED, help=argparse.SUPPRESS)
    o = parser.parse_args()
    folder = os.path.abspath(o.folder)
    if o.one:
        import torch
        torch.set_num_threads(os.cpu_count())
        print(statistics.median(milliseconds(o.one, folder, o.trained != "whole network", o.texts, o.ids, o.steps)))
        return
    with tempfile.TemporaryDirectory() as work:
        binary = os.path.join(work, "bench.test")
        subprocess.run(["go", "test", "-c", "-o", binary, "."], check=True, cwd=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        print("| trained | program | ms a step, median of turns | over PyTorch's step, each turn |\n|---|---|---:|---|")
        for trained in TRAINED:
            turns = {program: [] for program in PROGRAMS}
            for _ in range(o.turns):
                for program in PROGRAMS:
                    turns[program].append(measure(program, folder, trained, o, binary))
            for program, durations in turns.items():
                ratios = ", ".join(f"{d / p:.2f}" for d, p in zip(durations, turns["PyTorch"]))
                print(f"| {trained} | {program} | {statistics.median(durations):.0f} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
