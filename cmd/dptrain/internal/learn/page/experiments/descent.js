import { number, surface } from '../chart.js';

const noises = [0, 0.5, 1, 2, 4, 8];

export default {
  title: 'Fit a line: every step of SGD',
  module: 'engine',
  button: 'Run',
  follows: (result) => Boolean(result),
  controls: [
    { name: 'lot', label: 'Points in a lot', values: [1, 2, 5, 10, 20, 50, 100, 200], value: 10 },
    { name: 'rate', label: 'Learning rate η', values: [0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1], value: 0.1 },
    { name: 'steps', label: 'Lots T', values: [10, 30, 60, 100, 200, 400], value: 60 },
    { name: 'noise', label: 'Noise multiplier z', values: noises, value: 0, text: (v) => (v === 0 ? 'none: plain SGD' : number(v)) },
    { name: 'clip', label: 'Clip bound C (with noise)', values: [0.1, 0.3, 1, 3], value: 1 },
  ],
  run: (v, { ask }) => ask('descent', { lot: v.lot, steps: v.steps, rate: v.rate, noise: v.noise, clip: v.clip }),
  show: (v, r) => ({
    numbers: [
      { name: 'Loss at the end', value: r.loss, how: 'mean of (w₀·x + w₁ − y)² over the 200 points' },
      { name: 'Smallest loss on the grid', value: r.best, how: 'of the 625 points of the picture' },
      ...(v.noise ? [{ name: 'Noise in a step', value: v.rate * v.noise * v.clip / v.lot, how: 'standard deviation in each weight: η·z·C/(q·N)' }] : []),
    ],
    charts: [surface({ title: 'The loss over both weights, and the path of the weights', grid: r.grid, size: 25, low: -1.5, high: 1.5, path: r.path, x: { label: 'slope w₀' }, y: { label: 'intercept w₁' } })],
  }),
  real: (v) => ({
    command: v.noise
      ? `dptrain train --data points.csv --test more.csv --target y --bounds x=-1:1,y=-3:3 \\\n  --model logistic --optimizer sgd --lot ${v.lot} --steps ${v.steps} --lr ${v.rate} --noise ${v.noise} --clip ${v.clip}`
      : `dptrain train --data points.csv --test more.csv --target y --bounds x=-1:1,y=-3:3 \\\n  --model logistic --optimizer sgd --lot ${v.lot} --steps ${v.steps} --lr ${v.rate} --non-private`,
    python: v.noise
      ? `dptrain.Regressor(noise=${v.noise}, bounds=(-1, 1), target_bounds=(-3, 3), model="logistic", optimizer="sgd",\n                  lot=${v.lot}, steps=${v.steps}, lr=${v.rate}, clip=${v.clip}).fit(x, y)`
      : '# dptrain.Regressor always trains with privacy; give z',
    go: `config.Sampling, config.Steps = engine.Sampling{Lot: ${v.lot}}, ${v.steps}
config.Optimization.Schedule = optim.Schedule{Base: ${v.rate}}`,
  }),
  facts: (v, r) => [{ name: 'SGD finds the valley', holds: v.noise > 0 || r.loss < r.best + 0.1 }],
};
