import { lines, number } from '../chart.js';
import { flags, line } from './common.js';

const ks = [1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100];
const records = 100000, delta = 1e-6;

export default {
  title: 'One example, or all examples of a person?',
  module: 'accounting',
  controls: [
    { name: 'k', label: 'Examples of each person', values: ks, value: 10 },
    { name: 'lot', label: 'Examples in a lot, of 100,000', values: [100, 200, 500, 1000, 2000, 5000], value: 1000 },
    { name: 'steps', label: 'Lots T', values: [100, 300, 1000, 3000], value: 300 },
    { name: 'noise', label: 'Noise multiplier z', values: [0.8, 1, 1.5, 2, 3, 5], value: 2 },
  ],
  run: (v, { ask }) => ask('users', { plan: { sampling: 'poisson', records, lot: v.lot, rate: 0, steps: v.steps, noise: v.noise, groups: [] }, delta, examples: ks }),
  show(v, r) {
    const i = r.examples.indexOf(v.k);
    return {
      numbers: [
        { name: 'ε for one example', value: r.example, how: `PLD accountant, δ = ${number(delta)}` },
        { name: `ε for a person, from the ε for examples`, value: r.group[i], how: 'group privacy: k·ε, at a δ that grows by (e^(kε) − 1)/(e^ε − 1)' },
        { name: 'ε with --record user', value: r.by_user[i], how: `lots of ${number(Math.max(1, Math.floor(v.lot / v.k)))} of ${number(records / v.k)} people, each clipped once` },
        { name: 'Noise in the mean, against examples', value: `${number(v.k)} times`, how: 'z·C/(q·N): N is the number of people' },
      ],
      charts: [lines({ title: 'ε for a person', x: { label: 'examples of each person', log: true, min: 1, max: 100 }, y: { label: 'ε', log: true },
        series: [{ name: 'example by example, by group privacy', x: r.examples, y: r.group }, { name: 'with the person as the record', x: r.examples, y: r.by_user, style: 'dash' }],
        marks: [{ x: v.k, y: r.by_user[i], text: 'your k', k: 1 }] })],
    };
  },
  real: (v) => ({
    command: `dptrain train --data people.csv --label sick --classes no,yes --bounds age=0:120 \\\n  --record user:person --user-examples ${v.k} --lot ${Math.max(1, Math.floor(v.lot / v.k))} --steps ${v.steps} --noise ${v.noise}\n${line(['budget epsilon', ...flags({ records: records / v.k, lot: Math.max(1, Math.floor(v.lot / v.k)), steps: v.steps, noise: v.noise, delta })])}`,
    python: `dptrain.Classifier(epsilon=2, record="user:person", user_examples=${v.k},\n                   bounds={"age": (0, 120)}, classes=["no", "yes"]).fit(people, sick)`,
    go: `config.Records = engine.Records{Users: true, Examples: ${v.k}}`,
  }),
  checks: (v, r) => [
    { command: ['budget', 'epsilon', ...flags({ records, lot: v.lot, steps: v.steps, noise: v.noise, delta })], key: 'epsilon', value: r.example },
    { command: ['budget', 'epsilon', ...flags({ records: records / v.k, lot: Math.max(1, Math.floor(v.lot / v.k)), steps: v.steps, noise: v.noise, delta })], key: 'epsilon', value: r.by_user[r.examples.indexOf(v.k)] },
  ],
};
