// What several experiments share.

import { make } from '../chart.js';

export const epsilons = [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 6, 8, 10];

export const deltas = { name: 'delta', label: 'δ', values: [1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4], value: 1e-6 };

// lotsUpTo returns numbers of lots for the points of a curve, denser where it bends.
export const lotsUpTo = (steps, points = 24) => [...new Set(Array.from({ length: points }, (_, i) => Math.max(1, Math.round(steps * ((i + 1) / points) ** 1.5))))];

export const accountants = { pld: 'PLD', rdp: 'Rényi', moments: 'moments', gdp: 'Gaussian DP (≈)', zcdp: 'zCDP', strong: 'strong', naive: 'naive', tcdp: 'tCDP' };

// planInGo writes a plan with Poisson lots.
export const planInGo = ({ records, lot, steps }) => `plan := accountant.Plan{Steps: ${steps}, Sampling: ledger.Sampling{\n\tPolicy: ledger.Poisson, Rate: ${lot / records}, Records: ${records},\n}}`;

// plain writes a number as a person types it.
export const plain = (v) => (typeof v === 'number' && v > 0 && v < 1e-3 ? v.toExponential() : String(v));

// flags writes the flags of a command.
export const flags = (all) => Object.entries(all).flatMap(([k, v]) => [`--${k}`, plain(v)]);

export const line = (words) => ['dptrain', ...words].join(' ');

export function table(caption, head, rows) {
  return make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption }, make('table', {}, make('caption', {}, caption),
    make('thead', {}, make('tr', {}, head.map((h) => make('th', { scope: 'col' }, h)))),
    make('tbody', {}, rows.map((r) => make('tr', {}, r.map((c, i) => (i === 0 ? make('th', { scope: 'row' }, c) : make('td', {}, c))))))));
}

export const shares = Array.from({ length: 101 }, (_, i) => i / 100);

export const rates = { percent: true, min: 0, max: 1 };

// the ledger of the reader's last run, which chapter 12 reads
export const shared = { ledger: '' };
