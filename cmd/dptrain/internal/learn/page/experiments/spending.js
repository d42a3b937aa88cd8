import { lines, number } from '../chart.js';
import { flags, line, plain, planInGo } from './common.js';

const records = 60000, lot = 600, delta = 1e-6;

export default {
  title: 'What else does the budget pay for?',
  module: 'accounting',
  controls: [
    { name: 'budget', label: 'Budget ε', values: [0.5, 1, 2, 3, 5, 8], value: 2 },
    { name: 'steps', label: 'Lots T', values: [100, 200, 500, 1000, 2000], value: 500 },
    { name: 'metric', label: 'Noise multiplier of a metric, every lot', values: [0, 2, 3, 5, 7, 10, 20, 50], value: 10, text: (v) => (v === 0 ? 'no metric' : number(v)) },
    { name: 'runs', label: 'Mean number of runs in tuning', values: [2, 5, 10, 20, 50], value: 10 },
  ],
  run: (v, { ask }) => ask('spending', { plan: { sampling: 'poisson', records, lot, rate: 0, steps: v.steps, noise: 0, groups: [] }, epsilon: v.budget, delta, metric: v.metric, runs: v.runs }),
  show: (v, r) => ({
    numbers: [
      { name: 'Noise multiplier without a metric', value: r.gradients, how: `the least for ε = ${number(v.budget)} over ${number(v.steps)} lots of 600 of 60,000, δ = 10⁻⁶` },
      ...(v.metric ? [{ name: '… beside the metric', value: r.with, how: 'z_g with 1/z² = 1/z_g² + 1/z_m²' },
        { name: 'ε of gradients and metric together', value: r.together, how: 'PLD accountant' }] : []),
      { name: 'Lots that a filter admits', value: `${number(r.filtered)} of ${number(v.steps)}`, how: 'Rényi filter with the same noise, for lots that are chosen from earlier releases' },
      { name: 'ε of the best of many runs', value: r.selection, how: `each costs ε = ${number(v.budget)}; their number is geometric with mean ${number(v.runs)} (Papernot and Steinke 2022)` },
    ],
    charts: [lines({ title: 'Noise that the gradients need beside a metric', x: { label: 'noise multiplier of the metric', log: true }, y: { label: 'noise multiplier of the gradients', min: 0, max: 3 * r.gradients },
      series: [{ name: 'with the metric', x: r.metrics, y: r.with_metric }, { name: 'without', x: [r.metrics[0], r.metrics.at(-1)], y: [r.gradients, r.gradients], k: 'kx', style: 'dash' }],
      marks: v.metric ? [{ x: v.metric, y: r.with, text: 'your metric', k: 0 }] : [] })],
  }),
  real: (v, r) => ({
    command: v.metric && r
      ? line(['budget epsilon', ...flags({ records, lot, steps: v.steps, groups: `1:${r.with},1:${v.metric}`, delta })]) + `\ndptrain train --epsilon ${v.budget} --metric accuracy:noise=${v.metric}`
      : line(['budget noise', ...flags({ records, lot, steps: v.steps, epsilon: v.budget, delta })]),
    python: `dptrain.budget.noise(records=${records}, lot=${lot}, steps=${v.steps}, epsilon=${v.budget}, delta=${plain(delta)})`,
    go: `${planInGo({ records, lot, steps: v.steps })}\nplan.Noise = ${r?.gradients ?? 1}\ng, err := accountant.Epsilon(plan.History(), ${plain(delta)}, "rdp")\nfilter, err := accountant.NewFilter(${v.budget}, ${plain(delta)}, g.Order, ledger.ZeroOut)\nok, err := filter.Admit(plan.History().Lots[0].Lot, 1) // before each lot`,
  }),
  checks: (v, r) => [
    { command: ['budget', 'noise', ...flags({ records, lot, steps: v.steps, epsilon: v.budget, delta })], key: 'noise_multiplier', value: r.gradients },
    ...(v.metric ? [{ command: ['budget', 'epsilon', ...flags({ records, lot, steps: v.steps, groups: `1:${r.with},1:${v.metric}`, delta })], key: 'epsilon', value: r.together }] : []),
  ],
  facts: (v, r) => [{ name: 'gradients and metric keep the budget', holds: r.together <= v.budget * (1 + 1e-9) }],
};
