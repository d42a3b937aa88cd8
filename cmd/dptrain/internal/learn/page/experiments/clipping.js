import { bars, lines, number } from '../chart.js';

const clips = [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 20];
const root = (v) => Math.hypot(...v);

export default {
  title: 'The gradients of 32 pictures, before and after clipping',
  module: 'engine',
  button: 'Compute gradients',
  follows: (result) => Boolean(result),
  controls: [
    { name: 'clip', label: 'Clip bound C', values: clips, value: 1 },
    { name: 'groups', label: 'Clip', choices: { joint: 'all parameters together', layer: 'each parameter by itself, bound C/√4' }, value: 'joint' },
    { name: 'steps', label: 'Steps of SGD before', values: [0, 10, 30, 100, 300], value: 30 },
  ],
  run: (v, { ask }) => ask('gradients', { clip: v.clip, per_layer: v.groups === 'layer', steps: v.steps }),
  show(v, r) {
    const before = r.norms.map(root), after = r.clipped.map(root);
    const order = before.map((_, i) => i).sort((a, b) => before[a] - before[b]);
    return {
      numbers: [
        { name: 'Pictures that are not clipped', value: `${r.unclipped} of ${before.length}`, how: 'clip factor min(1, C/‖g‖) = 1' },
        { name: 'Direction kept', value: r.at_cosine, how: 'cosine between the mean of the clipped gradients and the mean gradient' },
        { name: 'Length kept', value: r.at_length, how: 'ratio of the norms of these two means' },
        { name: 'Largest norm after clipping', value: Math.max(...after), how: `at most C = ${number(v.clip)}` },
      ],
      charts: [
        bars({ title: 'Norm of each picture’s gradient', names: order.map((i) => String(i + 1)), label: 'pictures, in the order of their norms', y: { label: 'ℓ₂ norm', min: 0 },
          series: [{ name: 'before', y: order.map((i) => before[i]), k: 'kx', style: 'faint' }, { name: 'after', y: order.map((i) => after[i]), k: 'k0' }], line: { y: v.clip, name: 'C' } }),
        lines({ title: 'The bias of clipping', x: { label: 'clip bound C', log: true }, y: { label: 'kept', min: 0, max: 1, percent: true },
          series: [{ name: 'direction: cosine', x: r.clips, y: r.cosine }, { name: 'length', x: r.clips, y: r.length, style: 'dash' }], marks: [{ x: v.clip, y: r.at_cosine, text: 'your C' }] }),
      ],
    };
  },
  real: (v) => ({
    command: `dptrain train --epsilon 2 --clip ${v.clip} --clipping ${v.groups === 'layer' ? 'per-layer' : 'flat'}`,
    python: `dptrain.Classifier(epsilon=2, clip=${v.clip}, clipping="${v.groups === 'layer' ? 'per-layer' : 'flat'}",
                   bounds=(0, 1), classes=range(10)).fit(X, y)`,
    go: v.groups === 'layer' ? `config.Mechanism.Clipping = clip.PerParameter(names, clip.Constant(${v.clip}), nil)` : `config.Mechanism.Clipping = clip.Flat(clip.Constant(${v.clip}), nil)`,
  }),
  facts: (v, r) => [{ name: 'no clipped norm is above C', holds: Math.max(...r.clipped.map(root)) <= v.clip * (1 + 1e-6) }],
};
