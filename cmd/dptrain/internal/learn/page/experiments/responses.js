import { lines, number } from '../chart.js';
import { epsilons, rates, shares } from './common.js';

export default {
  title: 'Randomised response',
  module: 'accounting',
  controls: [
    { name: 'epsilon', label: 'ε of an answer', values: epsilons, value: 1 },
    { name: 'people', label: 'People asked', values: [100, 300, 1000, 3000, 10000, 100000], value: 1000 },
    { name: 'yes', label: 'True share of “yes”', values: [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7], value: 0.3, text: (v) => `${number(100 * v)}%` },
  ],
  async run(v, { ask }) {
    const [answers, roc] = await Promise.all([
      ask('responses', { epsilon: v.epsilon, people: v.people, yes: v.yes }),
      ask('roc', { epsilon: v.epsilon, delta: 0, plan: null, false_positive: [...shares, 1 / (1 + Math.exp(v.epsilon))].sort((a, b) => a - b) }),
    ]);
    return { ...answers, roc };
  },
  show(v, r) {
    const x = [...shares, 1 / (1 + Math.exp(v.epsilon))].sort((a, b) => a - b);
    return {
      numbers: [
        { name: 'Probability of a true answer', value: r.truth, how: 'e^ε / (1 + e^ε)' },
        { name: 'Odds that an answer is true', value: Math.exp(v.epsilon), how: 'e^ε to 1' },
        { name: 'Best guess about a person', value: r.roc.guess, how: 'largest (1 + TPR − FPR)/2, for even odds before' },
        { name: 'Estimated share of “yes”', value: `${number(100 * r.estimate)}%`, how: `(answered − (1 − p))/(2p − 1); ${number(100 * r.answered)}% answered “yes”` },
        { name: 'Standard deviation of the estimate', value: `${number(100 * r.deviation)}%`, how: '√(p(1 − p)/n)/(2p − 1)' },
      ],
      charts: [lines({ title: 'The best attack on one answer', x: { label: 'false-positive rate', ...rates }, y: { label: 'true-positive rate', ...rates },
        series: [{ name: 'TPR ≤ min(e^ε·FPR, 1 − e^−ε·(1 − FPR)), reached', x, y: r.roc.true_positive }, { name: 'guessing', x: [0, 1], y: [0, 1], k: 'kx', style: 'dash' }] })],
    };
  },
  real: (v) => ({
    command: 'dptrain train --epochs 2 --out runs/first   # its report.html draws this curve for the run',
    python: `p = math.exp(${v.epsilon}) / (1 + math.exp(${v.epsilon}))\nanswer = truth if random.SystemRandom().random() < p else not truth`,
    go: `rate := accountant.TradeOffOf(${v.epsilon}, 0).TruePositiveRate(0.1)`,
  }),
  facts: (v, r) => [{ name: 'the best guess is that of the formula', holds: Math.abs(r.roc.guess - Math.exp(v.epsilon) / (1 + Math.exp(v.epsilon))) < 1e-9 }],
};
