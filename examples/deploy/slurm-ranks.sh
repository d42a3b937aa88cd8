#!/usr/bin/env bash
#SBATCH --job-name=dptrain-ranks
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --mem-per-cpu=1G
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --output=dptrain-%j.log

# One private run on 8 ranks as a job: sbatch slurm-ranks.sh DATA SCHEMA RUN
# DATA and SCHEMA are on a file system that all nodes see. Slurm sends SIGTERM to all ranks two minutes before the
# time limit: they end the present lot together, and rank 0 saves the run. A job that starts again continues the
# same ledger, with any number of ranks. With MPICH use --mpi=pmi2.
set -euo pipefail
data=$1 schema=$2 run=$3
ranks=(srun --mpi=pmix --kill-on-bad-exit=1 dptrain train --threads "$SLURM_CPUS_PER_TASK")

if [ -e "$run/ledger.jsonl" ]; then
	exec "${ranks[@]}" --resume "$run"
fi
exec "${ranks[@]}" --data "$data" --schema "$schema" --epsilon 1 --delta 1e-5 --out "$run"
