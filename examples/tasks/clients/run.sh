#!/usr/bin/env bash
# Protects all rows of a person together: bash run.sh
set -euo pipefail
cd "$(dirname "$0")"

# Draws visits: visits PEOPLE SEED, eight visits a person. A person has a habit, which all visits share.
visits() {
	awk -v people="$1" -v seed="$2" 'BEGIN {
		srand(seed); print "person,hour,pages,device,buys"
		for (p = 0; p < people; p++) {
			habit = rand() - rand()
			for (v = 0; v < 8; v++) {
				hour = int(24 * rand()); pages = 1 + int(20 * rand()); device = rand() < 0.5 ? "phone" : "desk"
				score = (pages - 10) / 4 + (device == "desk") - 0.5 + habit + 0.5 * (hour > 18) + rand() - rand()
				print "p" p "," hour "," pages "," device "," (score > 0 ? "yes" : "no")
			}
		}
	}'
}
visits 600 1 >visits.csv # private: 4,800 rows of 600 people
visits 500 2 >public.csv  # public

train() { # NAME FLAGS…
	dptrain train --data visits.csv --test public.csv --label buys --classes no,yes --bounds hour=0:23,pages=1:20 \
		--vocabulary 'device=phone|desk' --epsilon 1 --delta 1e-6 --out "runs/$1" --quiet "${@:2}"
}

# ε = 1 for one visit, and ε = 1 for all visits of a person.
train visit --ignore person
train person --record user:person --user-examples 8

# The guarantee for a visit says little about a person with eight of them: group privacy multiplies ε.
dptrain ledger show runs/person/ledger.jsonl | head -n 20
dptrain ledger epsilon runs/visit/ledger.jsonl --delta 1e-6
dptrain ledger epsilon runs/person/ledger.jsonl --delta 1e-6

# Federated averaging: a person takes four steps on own visits and contributes the change of the weights.
# Each lot changes the model by its mean and its noise, so few large lots are steadier than many small ones.
train averaging --record user:person --user-examples 8 --local-steps 4 --local-lr 0.2 --lot 300 --steps 40 --clip 0.5

python3 ../chart.py result.svg "600 people with 8 visits each, ε = 1" "a visit=runs/visit" "a person=runs/person" "a person, 4 local steps=runs/averaging"
