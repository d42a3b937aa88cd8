import { lines, make, number, picture } from '../chart.js';
import { flags, line, rates } from './common.js';

const passes = [1, 5, 10, 20, 40, 80, 120];
const privacy = { 0: 'none', 8: 'ε = 8', 4: 'ε = 4', 2: 'ε = 2', 1: 'ε = 1' };
const delta = 1e-4;

function histogram(losses, edges) {
  return edges.slice(0, -1).map((e, i) => losses.filter((l) => l >= e && l < edges[i + 1]).length / losses.length);
}

const edges = [0, ...Array.from({ length: 21 }, (_, i) => 10 ** (-4 + i * 0.25)), Infinity];

export default {
  title: 'Ask a model about its training pictures',
  module: 'engine',
  button: 'Train and attack',
  controls: [
    { name: 'records', label: 'Training pictures', values: [100, 200, 400, 800], value: 200 },
    { name: 'passes', label: 'Passes over them', values: passes, value: 40 },
    { name: 'privacy', label: 'Differential privacy', choices: privacy, value: '0' },
  ],
  run: (v, { ask }) => ask('members', { records: v.records, passes: v.passes, epsilon: Number(v.privacy), delta }),
  show(v, r) {
    const x = edges.slice(1, -1);
    const series = [
      { name: 'attack by the loss', x: r.false, y: r.true },
      { name: 'guessing', x: [0, 1], y: [0, 1], k: 'kx', style: 'dash' },
    ];
    if (r.bound) series.push({ name: 'the best that any attack can do, by the accountant', x: r.false, y: r.bound, k: 'k1', style: 'dots' });
    return {
      numbers: [
        { name: 'A training picture has the smaller loss', value: `${number(100 * r.area)}%`, how: 'of pairs of a training picture and another one: area under the curve; guessing has 50%' },
        { name: 'Loss of the mislabelled picture', value: number(r.with), how: '−ln p(label), of the model that was trained with it' },
        { name: '… of a model without it', value: number(r.without), how: 'trained again on the other pictures' },
        { name: 'Accuracy on other pictures', value: `${number(100 * r.accuracy)}%`, how: 'share of correct predictions' },
        ...(r.epsilon ? [{ name: 'ε', value: r.epsilon, how: `PLD accountant on the ledger, δ = ${number(delta)}, noise multiplier ${number(r.noise)}` }] : []),
      ],
      charts: [
        lines({ title: 'Membership inference: who was in the training set?', x: { label: 'false-positive rate', ...rates }, y: { label: 'true-positive rate', ...rates }, series }),
        lines({ title: 'Losses of training pictures and of others', x: { label: 'loss', log: true, min: 1e-4, max: 10 ** 1 }, y: { label: 'share of the pictures', min: 0, percent: true },
          series: [{ name: 'in training', x, y: histogram(r.members, edges).slice(0, -1) }, { name: 'not in training', x, y: histogram(r.others, edges).slice(0, -1), style: 'dash' }] }),
      ],
      more: [make('figure', {}, picture(r.picture, 28, `the mislabelled picture, a ${r.digit}`),
        make('figcaption', {}, `The mislabelled picture: a ${r.digit} with the label ${r.label}. Only a model that has seen it can believe the label.`))],
    };
  },
  real(v) {
    const private_ = v.privacy !== '0';
    return {
      command: line(['train', '--model mlp:64,act=tanh --lot 50 --epochs', v.passes, private_ ? `--epsilon ${v.privacy}` : '--non-private']),
      python: private_ ? `model = dptrain.Classifier(epsilon=${v.privacy}, model="mlp:64,act=tanh", lot=50, epochs=${v.passes},\n                           bounds=(0, 1), classes=range(10)).fit(X, y)` : '# dptrain.Classifier always trains with privacy; scikit-learn trains without',
      go: private_ ? `config.Mechanism.NoiseMultiplier, err = config.CalibrateNoise(${v.privacy})` : 'config.Mechanism = engine.Mechanism{NonPrivate: true}',
    };
  },
  checks: (v, r) => (r.epsilon ? [{
    command: ['budget', 'epsilon', ...flags({ records: v.records, lot: 50, steps: r.steps, noise: r.noise, delta })], key: 'epsilon', value: r.epsilon,
  }] : []),
  facts: (v, r) => (v.privacy === '0' ? [{ name: 'the attack is better than guessing', holds: r.area > 0.6 }, { name: 'the outlier is memorised', holds: r.with < r.without }] : []),
};
