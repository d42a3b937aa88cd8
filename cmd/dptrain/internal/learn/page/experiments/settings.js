import { lines, number } from '../chart.js';
import { epsilons, flags, line, plain, planInGo } from './common.js';

const delta = 1e-6;
const wide = [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8, 10];

const lots = (v) => ({ records: v.records, lot: Math.round(v.records * v.share), steps: Math.max(1, Math.round(v.epochs / v.share)) });

export default {
  title: 'The trade-off for your data',
  module: 'accounting',
  controls: [
    { name: 'records', label: 'Records N', values: [1000, 3000, 10000, 30000, 100000, 300000, 1000000], value: 30000 },
    { name: 'share', label: 'Lot, as a share of N', values: [0.003, 0.01, 0.03, 0.1, 0.3, 1], value: 0.03, text: (v) => `${number(100 * v)}%` },
    { name: 'epochs', label: 'Epochs', values: [1, 3, 10, 30, 100], value: 10 },
    { name: 'weights', label: 'Trained weights d', values: [100, 1000, 10000, 100000, 1000000, 10000000], value: 10000 },
    { name: 'target', label: 'ε', values: epsilons, value: 2 },
  ],
  run(v, { ask }) {
    const { lot, steps } = lots(v);
    const all = [...new Set([...wide, v.target])].sort((a, b) => a - b);
    return ask('settings', { plan: { sampling: 'poisson', records: v.records, lot, rate: 0, steps, noise: 0, groups: [] }, delta, epsilons: all, weights: v.weights })
      .then((r) => ({ ...r, lot, steps }));
  },
  show(v, r) {
    const i = r.epsilons.indexOf(v.target);
    return {
      numbers: [
        { name: 'Noise multiplier z', value: r.noise[i], how: `the least for ε = ${number(v.target)}, δ = ${number(delta)}, ${number(r.steps)} lots of ${number(r.lot)}` },
        { name: 'Noise in a coordinate of the mean', value: r.noise[i] / r.lot, how: 'z/(q·N), in units of C' },
        { name: 'Noise against the largest signal', value: r.ratio[i], how: 'z·√d/(q·N): norm of the noise in a step over C, which bounds the norm of the mean gradient' },
      ],
      charts: [lines({ title: 'Noise against signal in one step', x: { label: 'ε', log: true }, y: { label: 'z·√d/(q·N)', log: true },
        series: [{ name: `${number(v.records)} records, ${number(v.weights)} weights`, x: r.epsilons, y: r.ratio }, { name: 'noise as long as C', x: [0.1, 10], y: [1, 1], k: 'kx', style: 'dash' }],
        marks: [{ x: v.target, y: r.ratio[i], text: 'your ε' }] })],
    };
  },
  real: (v) => ({
    command: line(['budget noise', ...flags({ ...lots(v), epsilon: v.target, delta })]) + `\ndptrain train --data people.csv --label sick --classes no,yes --bounds age=0:120 \\\n  --ignore person --epsilon ${v.target} --dry-run   # lots and steps by a rule, with the noise of each layer`,
    python: `# lots and steps follow from public numbers\ndptrain.Classifier(epsilon=${v.target}, bounds=(0, 1), classes=range(10)).fit(X, y)`,
    go: `${planInGo(lots(v))}\nz, err := accountant.CalibrateNoise(plan, ${v.target}, ${plain(delta)}, "")`,
  }),
  checks: (v, r) => [{ command: ['budget', 'noise', ...flags({ records: v.records, lot: r.lot, steps: r.steps, epsilon: v.target, delta })], key: 'noise_multiplier', value: r.noise[r.epsilons.indexOf(v.target)] }],
};
