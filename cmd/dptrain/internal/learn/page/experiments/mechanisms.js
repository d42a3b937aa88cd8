import { bars, lines, number } from '../chart.js';
import { epsilons, flags, line, plain } from './common.js';

const kinds = { laplace: 'Laplace: a count', gaussian: 'Gaussian: a count', exponential: 'exponential: a choice by votes' };

export default {
  title: 'Three mechanisms on two neighbouring data sets',
  module: 'accounting',
  controls: [
    { name: 'kind', label: 'Mechanism', choices: kinds, value: 'laplace' },
    { name: 'budget', label: 'ε', values: epsilons, value: 1 },
    { name: 'failure', label: 'δ (Gaussian only)', values: [1e-8, 1e-6, 1e-5, 1e-4, 1e-3], value: 1e-5 },
  ],
  run: (v, { ask }) => ask('mechanism', { kind: v.kind, epsilon: v.budget, delta: v.failure }),
  show(v, r) {
    const how = { laplace: 'b = 1/ε for sensitivity 1', gaussian: 'the least σ for (ε, δ): analytic Gaussian mechanism', exponential: '' }[v.kind];
    const charts = v.kind === 'exponential'
      ? [bars({ title: 'Probability of each choice', names: r.names, label: 'choice', y: { label: 'probability', min: 0, percent: true },
        series: [{ name: 'with the votes 7, 6, 3, 1', y: r.p }, { name: 'with the votes 6, 7, 3, 1: one person moved', y: r.q }] })]
      : [lines({ title: 'Density of the published count', x: { label: 'published count' }, y: { label: 'density', min: 0 },
        series: [{ name: 'true count 0', x: r.x, y: r.p }, { name: 'true count 1: one person more', x: r.x, y: r.q, style: 'dash' }] })];
    return {
      numbers: [
        ...(how ? [{ name: v.kind === 'laplace' ? 'Scale b' : 'Standard deviation σ', value: r.scale, how }] : []),
        { name: 'Largest |ln(P/Q)| shown', value: r.loss, how: v.kind === 'gaussian' ? 'not bounded: beyond ε with probability about δ' : `at most ε = ${number(v.budget)}` },
      ],
      charts,
    };
  },
  real: (v, r) => ({
    laplace: {
      command: line(['budget epsilon --mechanism laplace --sampling none --steps 1 --delta 1e-9 --noise', number(1 / v.budget, 6)]),
      python: `dptrain.budget.epsilon(mechanism="laplace", sampling="none", steps=1, delta=1e-9, noise=${number(1 / v.budget, 6)})`,
      go: `// adds integers: the scale is 1/ε, rounded up
noises := make([]int64, 1)
err := source.DiscreteLaplaces(noises, noise.Stream{Purpose: noise.Release}, 0, ${Math.ceil(1 / v.budget)})`,
    },
    gaussian: {
      command: line(['budget noise', ...flags({ sampling: 'none', steps: 1, epsilon: v.budget, delta: v.failure })]),
      python: `dptrain.budget.noise(sampling="none", steps=1, epsilon=${v.budget}, delta=${plain(v.failure)})`,
      go: `z, err := accountant.CalibrateNoise(accountant.Plan{Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Steps: 1}, ${v.budget}, ${plain(v.failure)}, "")`,
    },
    exponential: {
      command: line(['choose --help   # a private choice by votes: permute-and-flip, which is never worse']),
      python: '# run the command: the Python package has no private choice',
      go: 'chooser, err := choice.New(writer, source) // package engine/choice: permute-and-flip',
    },
  })[v.kind],
  checks: (v, r) => (v.kind === 'gaussian' ? [{ command: ['budget', 'noise', ...flags({ sampling: 'none', steps: 1, epsilon: v.budget, delta: v.failure })], key: 'noise_multiplier', value: r.scale }] : []),
  facts: (v, r) => (v.kind === 'gaussian' ? [] : [{ name: 'the loss is at most ε', holds: r.loss <= v.budget * (1 + 1e-9) }]),
};
