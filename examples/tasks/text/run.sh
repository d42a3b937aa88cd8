#!/usr/bin/env bash
# Trains a private classifier of texts, and asks it about new ones: bash run.sh
set -euo pipefail
cd "$(dirname "$0")"

# Draws short letters: letters NUMBER SEED. Most words are those of the mood, some are of the other one.
letters() {
	awk -v n="$1" -v seed="$2" 'BEGIN {
		srand(seed)
		words["good"] = split("thanks happy warm lovely again smiled friend sunny helped gladly", good, " ")
		words["bad"] = split("late broken never angry refund cold waited rude lost worse", bad, " ")
		split("the parcel came and we with our house on monday from town to you it was", filler, " ")
		for (i = 0; i < n; i++) {
			mood = rand() < 0.5 ? "good" : "bad"; text = ""
			for (k = 0; k < 12; k++) {
				r = rand(); kind = rand() < 0.8 ? mood : (mood == "good" ? "bad" : "good")
				word = r < 0.7 ? filler[1 + int(16 * rand())] : kind == "good" ? good[1 + int(10 * rand())] : bad[1 + int(10 * rand())]
				text = text (k ? " " : "") word
			}
			printf "{\"text\": \"%s\", \"mood\": \"%s\"}\n", text, mood
		}
	}'
}
letters 4000 1 >letters.jsonl # private
letters 2000 2 >public.jsonl   # public

# Hashed n-grams of words need no vocabulary, so no word of a private letter becomes public.
for epsilon in 0.05 1; do
	dptrain train --data letters.jsonl --test public.jsonl --text text --label mood --classes bad,good \
		--epsilon "$epsilon" --out "runs/$epsilon" --quiet
done

echo '{"text": "thanks friend it was lovely and we smiled"}' | dptrain predict runs/1 | tee good.txt
echo '{"text": "the parcel came late and broken"}' | dptrain predict runs/1 | tee bad.txt
grep -q good good.txt
grep -q bad bad.txt

python3 ../chart.py result.svg "4,000 private letters" "ε of 0.05=runs/0.05" "ε of 1=runs/1"
