import { lines, number } from '../chart.js';
import { deltas, flags, line, lotsUpTo, plain, planInGo, table } from './common.js';

const records = 10000;
const samplings = { none: 'all records in every lot', poisson: 'Poisson', truncated: 'truncated Poisson', fixed: 'fixed size', shuffle: 'shuffled' };

export default {
  title: 'The same noise, lots that are drawn in different ways',
  module: 'accounting',
  controls: [
    { name: 'lot', label: 'Lot, of 10,000 records', values: [10, 20, 50, 100, 200, 500, 1000, 2000, 5000], value: 100 },
    { name: 'noise', label: 'Noise multiplier z', values: [0.5, 0.7, 0.8, 1, 1.2, 1.5, 2, 3, 5], value: 1 },
    { name: 'steps', label: 'Lots T', values: [100, 200, 500, 1000, 2000, 5000], value: 500 },
    { ...deltas, value: 1e-5 },
  ],
  async run(v, { ask }) {
    const plan = (sampling) => ({ sampling, records, lot: v.lot, rate: 0, noise: v.noise, groups: [] });
    const series = Object.keys(samplings).map((s) => ({ name: s, plan: { ...plan(s), steps: 0 }, accountant: '', steps: lotsUpTo(v.steps, 12) }));
    const [curve, ...rows] = await Promise.all([
      ask('curve', { series, delta: v.delta }),
      ...Object.keys(samplings).map((s) => ask('epsilon', { plan: { ...plan(s), steps: v.steps }, delta: v.delta, accountant: '' })),
    ]);
    return { curve, rows: rows.map((r) => r.rows[0]) };
  },
  show(v, r) {
    const names = Object.keys(samplings);
    return {
      numbers: [
        { name: 'Sampling rate q', value: v.lot / records, how: 'lot/N' },
        { name: 'ε with Poisson lots', value: r.rows[1].epsilon, how: `PLD accountant, δ = ${number(v.delta)}` },
        { name: 'ε with all records', value: r.rows[0].epsilon, how: 'no amplification' },
      ],
      charts: [lines({ title: 'ε against the number of lots', x: { label: 'lots' }, y: { label: 'ε', log: true },
        series: r.curve.series.map((s) => ({ name: samplings[s.name], x: s.steps, y: s.epsilon, style: s.name === 'truncated' ? 'dots' : s.name === 'fixed' || s.name === 'shuffle' ? 'dash' : '' })) })],
      more: [table(`ε of ${number(v.steps)} lots`, ['sampling', 'ε', 'neighbouring data sets differ in'],
        names.map((n, i) => [samplings[n], number(r.rows[i].epsilon, 4), r.rows[i].adjacency]))],
    };
  },
  real: (v) => ({
    command: line(['budget epsilon', ...flags({ sampling: 'poisson', records, lot: v.lot, noise: v.noise, steps: v.steps, delta: v.delta })]),
    python: `dptrain.budget.epsilon(sampling="poisson", records=${records}, lot=${v.lot}, noise=${v.noise}, steps=${v.steps}, delta=${plain(v.delta)})`,
    go: `${planInGo({ ...v, records })}
plan.Noise = ${v.noise}
g, err := accountant.Epsilon(plan.History(), ${plain(v.delta)}, "pld")`,
  }),
  checks: (v, r) => Object.keys(samplings).filter((s, i) => Number.isFinite(r.rows[i].epsilon)).map((s) => ({
    command: ['budget', 'epsilon', ...flags({ sampling: s, ...(s === 'none' ? {} : { records, lot: v.lot }), noise: v.noise, steps: v.steps, delta: v.delta })], key: 'epsilon', value: r.rows[Object.keys(samplings).indexOf(s)].epsilon,
  })),
};
