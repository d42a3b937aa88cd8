import { make, number } from '../chart.js';
import { accountants, deltas, plain, shared, table } from './common.js';

export default {
  title: 'Read a ledger',
  module: 'accounting',
  controls: [
    { ...deltas, value: 1e-6 },
    { name: 'damage', label: 'Change one digit of the noise in line 2', check: true, value: false },
  ],
  async run(v, { ask }) {
    const text = shared.ledger || (await ask('example', { plan: { sampling: 'poisson', records: 40000, lot: 1000, rate: 0, steps: 160, noise: 1, groups: [] } })).text;
    const read = v.damage ? text.replace(/"sigma":(\d)|"noise":(\d)/, (m) => m.slice(0, -1) + ((Number(m.at(-1)) + 1) % 10)) : text;
    const place = { text: read, own: Boolean(shared.ledger) };
    try {
      return { ...place, ...await ask('ledger', { text: read, delta: v.delta }) };
    } catch (e) {
      if (e.name === 'AbortError') throw e;
      return { ...place, refused: e.message };
    }
  },
  show(v, r) {
    const area = make('textarea', { 'aria-label': 'Lines of the ledger', spellcheck: false, readOnly: true });
    area.value = r.text;
    const file = make('input', { type: 'file', accept: '.jsonl', id: 'ledger-file' });
    file.onchange = async () => {
      shared.ledger = await file.files[0].text();
      document.querySelector('[data-experiment=ledger] input[type=range]').dispatchEvent(new Event('input'));
    };
    const more = [make('p', {}, make('label', { for: 'ledger-file' }, 'Read another ledger, which stays in this page: '), file),
      make('h3', {}, r.own ? 'The ledger of your run' : 'An example: 160 lots of 1,000 of 40,000 records'), area];
    if (r.refused) return { numbers: [{ name: 'Verification', value: 'refused', how: r.refused }], more };
    const pld = r.rows[0];
    return {
      numbers: [
        { name: 'ε', value: pld.epsilon, how: `PLD accountant, δ = ${number(v.delta)}` },
        { name: 'Verification', value: 'ok', how: `${r.entries} lines; each contains the SHA-256 of the one before` },
        { name: 'Lots', value: number(r.lots), how: 'stated before each release' },
        { name: 'Unit and adjacency', value: `${r.unit}, ${r.adjacency}`, how: { 'zero-out': 'neighbouring data sets: one record is blank', 'add-remove': 'neighbouring data sets: one record more or less', 'replace-one': 'neighbouring data sets: one record is another' }[r.adjacency] ?? 'neighbouring data sets' },
        { name: 'Head', value: `${r.head.slice(0, 12)}…`, how: 'hash of the last line: keep it elsewhere' },
      ],
      more: [table('The same lots by each accountant', ['accountant', 'ε'], r.rows.map((row) => [accountants[row.accountant], row.why ? '–' : number(row.epsilon, 5)])), ...more],
    };
  },
  real: (v) => ({
    command: `dptrain ledger verify ledger.jsonl\ndptrain ledger epsilon ledger.jsonl --delta ${plain(v.delta)}`,
    python: `dptrain.Ledger.open("ledger.jsonl").epsilon(${plain(v.delta)})`,
    go: `history, summary, err := ledger.Parse(file)\ng, err := accountant.Epsilon(history, ${plain(v.delta)}, "pld")`,
  }),
  checks: (v, r) => (r.refused ? [] : [{ command: ['ledger', 'epsilon', 'LEDGER', '--delta', String(v.delta)], key: 'epsilon', value: r.rows[0].epsilon, ledger: r.text }]),
  facts: (v, r) => [{ name: 'a changed line is found', holds: v.damage === Boolean(r.refused) }],
};
