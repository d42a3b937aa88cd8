"""Reads the documents of `dptrain report` with the programs that they are for: documents.py RUN STORE GUIDE.

GUIDE is docs/guide.md, whose lines for Weights & Biases run offline.
"""

import json
import os
import re
import sys

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # MLflow 3 asks for it
from huggingface_hub import ModelCard
from mlflow.tracking import MlflowClient

run, store, guide = sys.argv[1:]
summary = json.load(open(f"{run}/run.json", encoding="utf-8"))

card = ModelCard.load(f"{run}/README.md").data
assert card.library_name == "dptrain" and "differential-privacy" in card.tags, card
assert [(r.metric_type, r.metric_value) for r in card.eval_results] == [("accuracy", summary["test_accuracy"])], card.eval_results

client = MlflowClient(tracking_uri="file://" + os.path.abspath(store))
[found] = client.search_runs([client.get_experiment_by_name("dptrain").experiment_id], "metrics.`privacy/epsilon` < 1e9")
assert found.info.status == "FINISHED", found.info
assert found.data.params["model"] == summary["model"], found.data.params
assert found.data.metrics["test/accuracy"] == summary["test_accuracy"], found.data.metrics
points = [json.loads(line) for line in open(f"{run}/metrics.jsonl", encoding="utf-8")]
history = client.get_metric_history(found.info.run_id, "privacy/epsilon")
assert [(m.step, m.value) for m in history] == [(p["lot"], p["epsilon"]) for p in points], history
assert "ledger.jsonl" in [a.path for a in client.list_artifacts(found.info.run_id)]

os.environ["WANDB_MODE"] = "offline"
import wandb

logged = []
log = wandb.Run.log
wandb.Run.log = lambda self, values, step: (logged.append((step, values)), log(self, values, step=step))
[lines] = [block for block in re.findall(r"```python\n(.*?)```", open(guide, encoding="utf-8").read(), re.S) if "wandb" in block]
exec(lines.replace("runs/first", run), {})
assert [(step, values["epsilon"]) for step, values in logged] == [(p["lot"], p["epsilon"]) for p in points], logged
assert logged[-1][1]["test_accuracy"] == summary["test_accuracy"], logged
