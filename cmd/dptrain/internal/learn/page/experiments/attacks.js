import { bars, number } from '../chart.js';

const mistakes = {
  normaliser: 'divide by the number of records that are there',
  rate: 'state random lots, take a fixed order',
  seed: 'use a seed that others know',
  float: 'add floating-point noise to floating-point sums',
};

const remedy = {
  normaliser: 'divide by a public number',
  rate: 'draw the lots as stated',
  seed: 'take the key from the operating system',
  float: 'add integers, and round the noise correctly',
};

export default {
  title: 'A game that the attacker should not win',
  module: 'engine',
  button: 'Play',
  controls: [
    { name: 'mistake', label: 'Mistake', choices: mistakes, value: 'rate' },
    { name: 'mended', label: 'Without the mistake', check: true, value: false },
    { name: 'trials', label: 'Rounds', values: [100, 200, 400, 1000], value: 400 },
    { name: 'weights', label: 'Published numbers (floating point)', values: [1, 2, 4, 8, 16, 32, 64], value: 32 },
  ],
  run: (v, { ask }) => ask('attack', { mistake: v.mistake, mended: v.mended, trials: v.trials, weights: v.weights }),
  show(v, r) {
    const p = r.right / r.trials, margin = 2.6 * Math.sqrt(Math.max(p * (1 - p), 1 / r.trials) / r.trials);
    const limit = r.bound;
    return {
      numbers: [
        { name: 'The attacker is right', value: `${number(100 * p)}%`, how: `${r.right} of ${r.trials} rounds; ±${number(100 * margin)}% (99% interval)` },
        { name: 'The stated guarantee allows', value: `${number(100 * limit)}%`, how: `largest (1 + TPR − FPR)/2 for ε = ${number(r.epsilon)}, δ = ${number(r.delta)}, by the accountant` },
        { name: 'Verdict', value: p - margin > limit ? 'the guarantee is false' : 'no violation found', how: p - margin > limit ? 'an attack is better than the statement allows' : 'this attack is not better than the statement allows' },
      ],
      charts: [bars({ title: 'Rounds in which the attacker is right', names: ['this attack'], y: { label: 'share', min: 0, max: 1, percent: true },
        series: [{ name: v.mended ? `corrected: ${remedy[v.mistake]}` : mistakes[v.mistake], y: [p], low: [Math.max(0, p - margin)], high: [Math.min(1, p + margin)] }, { name: 'guessing', y: [0.5], k: 'kx', style: 'faint' }],
        line: { y: limit, name: 'what the stated (ε, δ) allows' } })],
    };
  },
  real: (v) => ({
    normaliser: { command: 'dptrain train --epsilon 2   # always divides by q·N, which is public', python: 'dptrain.Classifier(epsilon=2, bounds=(0, 1), classes=range(10)).fit(X, y)', go: 'config.Sampling = engine.Sampling{Lot: 300} // the divisor is Lot' },
    rate: { command: 'dptrain ledger show runs/first/ledger.jsonl   # states how each lot was drawn', python: 'dptrain.Ledger.open("runs/first/ledger.jsonl").epsilon(1e-5)', go: 'config.Sampling = engine.Sampling{Policy: sample.PolicyShuffle, Lot: 300} // lots in one order have a policy of their own' },
    seed: { command: 'dptrain train --epsilon 2 --seed 42   # marks the run insecure everywhere', python: 'dptrain.Classifier(epsilon=2, seed=42)  # marked insecure', go: 'config.Seed = nil // a key from the operating system' },
    float: { command: `dptrain train --epsilon 2 --arithmetic ${v.mended ? 'exact' : 'float'}`, python: `dptrain.Classifier(epsilon=2, arithmetic="${v.mended ? 'exact' : 'float'}")`, go: `config.Mechanism.Arithmetic = engine.${v.mended ? 'Exact' : 'Float'}Arithmetic` },
  })[v.mistake],
  facts(v, r) {
    const p = r.right / r.trials, five = 5 * Math.sqrt(0.25 / r.trials); // 6·10⁻⁷ by the normal distribution
    if (v.mended) return [{ name: `the corrected mechanism keeps its bound: ${p} against ${r.bound}`, holds: p <= r.bound + five }];
    return [{ name: `the attack wins: ${p} against ${r.bound}`, holds: p > r.bound + (v.mistake === 'rate' ? 0.05 : 0.03) || (v.mistake === 'float' && v.weights < 16) }];
  },
};
