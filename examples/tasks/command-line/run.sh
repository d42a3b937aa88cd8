#!/usr/bin/env bash
# Trains a private model of a CSV file, checks its evidence and uses it: bash run.sh
set -euo pipefail
cd "$(dirname "$0")"

# Draws rows of people: rows NUMBER SEED. The label follows from the other columns, with noise.
rows() {
	awk -v n="$1" -v seed="$2" 'BEGIN {
		srand(seed); split("office trade care farm", jobs, " "); print "age,hours,school,job,income"
		for (i = 0; i < n; i++) {
			age = 18 + int(73 * rand()); hours = 20 + int(40 * rand()); school = 8 + int(13 * rand()); job = jobs[1 + int(4 * rand())]
			score = (school - 14) / 3 + (hours - 38) / 15 - ((age - 50) / 25) ^ 2 + 1.2 * (job == "office") + rand() - rand()
			print age "," hours "," school "," job "," (score > 0 ? "high" : "low")
		}
	}'
}
rows 8000 1 >people.csv # private
rows 2000 2 >public.csv # public: a test file that may be shown

# Public facts about the columns: never taken from private rows.
cat >schema.yaml <<'YAML'
label: income
classes: [low, high]
bounds: {age: [18, 90], hours: [0, 80], school: [0, 20]}
vocabulary: {job: [office, trade, care, farm]}
YAML
dptrain schema check public.csv --schema schema.yaml

# What a run would cost, without a look at the private rows.
dptrain train --data people.csv --schema schema.yaml --epsilon 1 --dry-run

for epsilon in 0.1 1; do
	dptrain train --data people.csv --test public.csv --schema schema.yaml --epsilon "$epsilon" --out "runs/$epsilon" --quiet
done

# The evidence: the ledger is whole, and states an ε of at most 1.
dptrain ledger verify runs/1/ledger.jsonl
dptrain ledger epsilon runs/1/ledger.jsonl --delta 1e-5 --accountant rdp
dptrain budget noise --records 8000 --lot 2000 --steps 400 --epsilon 1

# The model in use, and its documents.
echo '{"age": 45, "hours": 50, "school": 20, "job": "office"}' | dptrain predict runs/1
dptrain export runs/1 --out model.onnx --overwrite
dptrain report runs/1 --format model-card
dptrain report runs/1 --format registry

python3 ../chart.py result.svg "A table of 8,000 private rows" "ε of 0.1=runs/0.1" "ε of 1=runs/1"
