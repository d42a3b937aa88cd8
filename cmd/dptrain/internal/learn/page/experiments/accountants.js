import { lines, number } from '../chart.js';
import { accountants as names, deltas, epsilons, flags, line, lotsUpTo, plain, planInGo, table } from './common.js';

export default {
  title: 'Your run, by eight accountants',
  module: 'accounting',
  controls: [
    { name: 'records', label: 'Records N', values: [1000, 3000, 10000, 30000, 60000, 100000, 300000, 1000000], value: 60000 },
    { name: 'lot', label: 'Lot q·N', values: [10, 50, 100, 256, 500, 600, 1000, 2000, 5000], value: 600 },
    { name: 'steps', label: 'Lots T', values: [100, 300, 1000, 3000, 10000, 30000], value: 10000 },
    { name: 'noise', label: 'Noise multiplier z', values: [0.5, 0.7, 1, 1.3, 2, 3, 4, 6, 8], value: 4 },
    { ...deltas, value: 1e-5 },
    { name: 'target', label: 'Calibrate to ε', values: epsilons, value: 2 },
  ],
  async run(v, { ask }) {
    if (v.lot > v.records) throw new Error('A lot has at most all records: make the lot smaller.');
    const plan = { sampling: 'poisson', records: v.records, lot: v.lot, rate: 0, steps: v.steps, noise: v.noise, groups: [] };
    const [compared, curve, noise] = await Promise.all([
      ask('epsilon', { plan, delta: v.delta, accountant: 'all' }),
      ask('curve', { series: Object.keys(names).map((n) => ({ name: n, plan: { ...plan, steps: 0 }, accountant: n, steps: lotsUpTo(v.steps) })), delta: v.delta }),
      ask('noise', { plan, epsilon: v.target, delta: v.delta }),
    ]);
    return { rows: compared.rows, curve, noise };
  },
  show(v, r) {
    const pld = r.rows[0];
    return {
      numbers: [
        { name: 'ε', value: pld.epsilon, how: `PLD, an upper bound; δ = ${number(v.delta)}`, digits: 5 },
        { name: 'Bracket', value: `${number(pld.lower, 5)} to ${number(pld.epsilon, 5)}`, how: 'the exact ε of these lots is between the two bounds' },
        { name: `Noise multiplier for ε = ${number(v.target)}`, value: r.noise.noise, how: `the least, to 0.1% of ε: with it ε = ${number(r.noise.epsilon, 5)}` },
      ],
      charts: [lines({ title: 'ε of the same run by each accountant', x: { label: 'lots' }, y: { label: 'ε', log: true },
        series: r.curve.series.map((s, i) => ({ name: names[s.name], x: s.steps, y: s.epsilon, style: ['', 'dash', 'dots', 'dash', '', 'dash', 'dots', 'dots'][i] })) })],
      more: [table(`ε of ${number(v.steps)} lots at δ = ${number(v.delta)}`, ['accountant', 'ε', 'remark'],
        r.rows.map((row) => [names[row.accountant], number(row.epsilon, 5), row.why || row.note || (row.order ? `order α = ${number(row.order)}` : 'a bound')]))],
    };
  },
  real: (v) => {
    const plan = { records: v.records, lot: v.lot, steps: v.steps, noise: v.noise, delta: v.delta };
    return {
      command: `${line(['budget compare', ...flags(plan)])}\n${line(['budget noise', ...flags({ records: v.records, lot: v.lot, steps: v.steps, epsilon: v.target, delta: v.delta })])}`,
      python: `dptrain.budget.epsilon(records=${v.records}, lot=${v.lot}, steps=${v.steps}, noise=${v.noise}, delta=${plain(v.delta)})\ndptrain.budget.noise(records=${v.records}, lot=${v.lot}, steps=${v.steps}, epsilon=${v.target}, delta=${plain(v.delta)})`,
      go: `${planInGo(v)}
z, err := accountant.CalibrateNoise(plan, ${v.target}, ${plain(v.delta)}, "pld")`,
    };
  },
  checks: (v, r) => [
    ...r.rows.filter((row) => !row.why).map((row) => ({
      command: ['budget', 'epsilon', ...flags({ records: v.records, lot: v.lot, steps: v.steps, noise: v.noise, delta: v.delta, accountant: row.accountant })], key: 'epsilon', value: row.epsilon,
    })),
    { command: ['budget', 'noise', ...flags({ records: v.records, lot: v.lot, steps: v.steps, epsilon: v.target, delta: v.delta })], key: 'noise_multiplier', value: r.noise.noise },
  ],
};
