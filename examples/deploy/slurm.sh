#!/usr/bin/env bash
#SBATCH --job-name=dptrain-adult
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=2G
#SBATCH --time=01:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --output=dptrain-%j.log

# One private run as a job: sbatch slurm.sh DATA SCHEMA RUN
# Slurm sends SIGTERM two minutes before the time limit: dptrain ends the present lot and saves the
# run. A job that starts again continues the same ledger.
set -euo pipefail
data=$1 schema=$2 run=$3

if [ -e "$run/ledger.jsonl" ]; then
	exec srun dptrain train --resume "$run"
fi
exec srun dptrain train --data "$data" --schema "$schema" --epsilon 1 --delta 1e-5 --out "$run"
