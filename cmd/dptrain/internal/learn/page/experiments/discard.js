import { lines, number } from '../chart.js';
import { flags, line, plain } from './common.js';

const delta = 1e-6;
const looks = [1, 10, 30, 100, 300, 1000, 3000, 10000];

export default {
  title: 'Draw and discard: who learns what?',
  module: 'accounting',
  controls: [
    { name: 'instances', label: 'Instances k at the server', values: [1, 2, 5, 10, 20, 50, 100], value: 20 },
    { name: 'local', label: 'ε of one contribution', values: [0.5, 1, 2, 4, 8], value: 1 },
    { name: 'updates', label: 'Updates before the look', values: looks, value: 1000 },
  ],
  run: (v, { ask }) => ask('discard', { instances: v.instances, epsilon: v.local, delta, updates: looks }),
  show(v, r) {
    const i = r.updates.indexOf(v.updates);
    return {
      numbers: [
        { name: 'Channel: sees the returned model', value: v.local, how: 'ε of the client’s own noise: a guarantee' },
        { name: 'Insider: sees all instances', value: r.insider, how: 'ε·(k − 1)/k: a mean over draws, and no guarantee (the guarantee is ε)' },
        { name: 'Contribution is gone', value: `${number(100 * r.gone[i])}%`, how: `probability that no instance descends from it after ${number(v.updates)} updates; at most 1 − 1/k` },
        { name: 'Later: one instance, at random', value: r.later[i], how: `ε at δ = ${number(delta)}, a guarantee if the server’s choices do not depend on models` },
      ],
      charts: [lines({ title: 'What a later observer learns', x: { label: 'updates after the contribution', log: true }, y: { label: 'ε, and probability', min: 0 },
        series: [{ name: 'ε of one instance', x: r.updates, y: r.later }, { name: 'probability that the contribution is gone', x: r.updates, y: r.gone, style: 'dash' }] })],
    };
  },
  real: (v) => ({
    command: line(['budget local', ...flags({ instances: v.instances, epsilon: v.local, updates: v.updates, delta })]),
    python: '# run the command: the Python package has no draw and discard',
    go: `l := adversary.Later{Contribution: adversary.NewLaplace(${v.local}), Instances: ${v.instances}, Updates: ${v.updates}}\nepsilon := l.Epsilon(l.OneModelDelta, ${plain(delta)})`,
  }),
  checks(v, r) {
    const command = ['budget', 'local', ...flags({ instances: v.instances, epsilon: v.local, updates: v.updates, delta })], i = r.updates.indexOf(v.updates);
    return [{ command, key: 'insider', value: r.insider }, { command, key: 'later.gone', value: r.gone[i] }, { command, key: 'later.epsilon', value: r.later[i] }];
  },
};
