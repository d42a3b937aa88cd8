// An experiment of a chapter: controls, a computation, and what it shows.
//
// A definition has
//   title, controls             what the reader sets
//   module, button              the module that computes; the name of the button, if it does not start by itself
//   run(values, tools)          computes a result; tools.ask(operation, request), tools.progress
//   show(values, result)        returns numbers {name, value, how}, and charts
//   live(values, reports)       the same, for reports of progress
//   real(values, result)        the command, the Python and the Go lines that do the same
//   checks(values, result)      commands whose output contains numbers of this page; tests run them

import { ask } from './pool.js';
import { formula, make, number } from './chart.js';

let serial = 0;

export class Experiment {
  constructor(place, definition, settings, changed) {
    this.place = place;
    this.definition = definition;
    this.changed = changed;
    this.id = `x${++serial}`;
    this.values = {};
    this.state = 'ready';
    this.build();
    this.restore(settings, true);
  }

  build() {
    const d = this.definition;
    const title = make('h2', { id: `${this.id}-title` }, d.title);
    this.place.setAttribute('role', 'region');
    this.place.setAttribute('aria-labelledby', title.id);
    this.inputs = new Map();
    const controls = make('div', { class: 'controls' }, d.controls.map((c) => this.control(c)));
    this.status = make('p', { class: 'status', role: 'status' });
    this.output = make('div', { class: 'output' });
    this.buttons = make('div', { class: 'buttons' });
    this.progressBar = make('progress', { max: 1, value: 0, 'aria-label': `Progress: ${d.title}` });
    this.progressBox = make('div', { class: 'bar' }, this.progressBar);
    this.progressBox.hidden = true;
    if (d.button) {
      this.start = make('button', { type: 'button' }, d.button);
      this.start.onclick = () => this.run();
      this.stopButton = make('button', { type: 'button', class: 'second', disabled: true }, 'Stop');
      this.stopButton.onclick = () => this.stop();
      this.buttons.append(this.start, this.stopButton);
    }
    this.buttons.hidden = !d.button;
    this.real = make('div', { class: 'real' });
    this.place.append(title, controls, this.buttons, this.progressBox, this.status, this.output, this.real);
  }

  control(c) {
    const id = `${this.id}-${c.name}`;
    if (c.check) {
      const input = make('input', { type: 'checkbox', id });
      input.onchange = () => this.set(c, input.checked);
      this.inputs.set(c.name, (v) => { input.checked = v; });
      return make('div', { class: 'control check' }, input, make('label', { for: id }, c.label));
    }
    if (c.choices) {
      const select = make('select', { id }, Object.entries(c.choices).map(([v, text]) => make('option', { value: v }, text)));
      select.onchange = () => this.set(c, select.value);
      this.inputs.set(c.name, (v) => { select.value = v; });
      return make('div', { class: 'control' }, make('label', { for: id }, c.label), select);
    }
    const text = c.text ?? ((v) => number(v));
    const output = make('output', { for: id });
    const input = make('input', { type: 'range', id, min: 0, max: c.values.length - 1, step: 1 });
    input.oninput = () => {
      const v = c.values[Number(input.value)];
      output.textContent = text(v);
      input.setAttribute('aria-valuetext', text(v));
      this.set(c, v);
    };
    this.inputs.set(c.name, (v) => {
      input.value = c.values.indexOf(v);
      output.textContent = text(v);
      input.setAttribute('aria-valuetext', text(v));
    });
    return make('div', { class: 'control' }, make('label', { for: id }, c.label), output, input);
  }

  // restore takes the settings of an address. Others get their defaults.
  restore(settings, first) {
    let differs = false;
    for (const c of this.definition.controls) {
      const v = read(c, settings.get(c.name));
      differs ||= this.values[c.name] !== v;
      this.values[c.name] = v;
      this.inputs.get(c.name)(v);
    }
    if (first || differs) this.refresh();
  }

  describe(query) {
    for (const c of this.definition.controls) {
      if (this.values[c.name] !== c.value) query.set(c.name, String(this.values[c.name]));
    }
  }

  set(c, value) {
    this.values[c.name] = value;
    this.changed();
    this.refresh();
  }

  // refresh follows a change of the settings.
  refresh() {
    this.showReal();
    if (this.definition.button && !this.definition.follows?.(this.result)) {
      if (this.state === 'done') this.say('The settings have changed. The output below is that of the earlier ones.');
      return;
    }
    clearTimeout(this.timer);
    this.state = 'waiting';
    this.timer = setTimeout(() => this.run(), 120);
  }

  stop() {
    this.work?.abort(new DOMException('stopped', 'AbortError'));
  }

  async run() {
    clearTimeout(this.timer);
    this.stop();
    const work = this.work = new AbortController();
    const values = { ...this.values }, d = this.definition, reports = [];
    this.state = 'running';
    this.say(d.button ? 'Working …' : '');
    const slow = setTimeout(() => { if (this.work === work) this.say('Working …'); }, 400);
    this.busy(true);
    const began = performance.now();
    const progress = (p) => {
      if (this.work !== work) return;
      if (typeof p === 'number') this.progressBar.value = p;
      else {
        reports.push(p);
        this.progressBar.value = p.lot / p.lots;
        const left = (performance.now() - began) / p.lot * (p.lots - p.lot) / 1000;
        this.say(`Lot ${p.lot} of ${p.lots}, about ${Math.ceil(left)} s left`);
        if (d.live) this.output.replaceChildren(...this.render(d.live(values, reports)));
      }
    };
    try {
      const result = await d.run(values, { ask: (name, request) => ask(d.module, name, request, { signal: work.signal, progress }), reports });
      if (this.work !== work) return;
      this.result = result;
      result.seconds = (performance.now() - began) / 1000;
      this.shown = values;
      this.output.replaceChildren(...this.render(d.show(values, result)));
      this.state = 'done';
      this.say(d.button ? `Done in ${number(result.seconds)} s.` : '');
      this.showReal();
    } catch (e) {
      if (this.work !== work) return;
      this.state = e.name === 'AbortError' ? 'stopped' : 'failed';
      this.say(e.name === 'AbortError' ? 'Stopped.' : e.message, e.name !== 'AbortError');
    } finally {
      clearTimeout(slow);
      if (this.work === work) this.busy(false);
    }
  }

  busy(on) {
    this.progressBox.hidden = !on || !this.definition.button;
    this.progressBar.value = 0;
    this.output.setAttribute('aria-busy', String(on));
    if (this.stopButton) {
      this.stopButton.disabled = !on;
      this.start.disabled = on;
    }
  }

  say(text, error) {
    this.status.textContent = text;
    this.status.classList.toggle('error', Boolean(error));
  }

  render({ numbers = [], charts = [], more = [] }) {
    const list = make('dl', { class: 'numbers' }, numbers.map((n) => make('div', {},
      make('dt', {}, formula(n.name)),
      make('dd', {}, make('span', { class: 'value' }, typeof n.value === 'number' || n.value === null ? number(n.value, n.digits ?? 4) : n.value), make('span', { class: 'how' }, formula(n.how))))));
    return [numbers.length ? list : null, charts.length ? make('div', { class: 'charts' }, charts) : null, ...more].filter(Boolean);
  }

  showReal() {
    const lines = this.definition.real?.(this.values, this.result);
    if (!lines) return;
    const block = (name, text) => [make('h3', {}, name), make('pre', { tabindex: '0', 'aria-label': `${name}: the same` }, make('code', {}, whole(text)))];
    this.real.replaceChildren(make('h3', {}, 'The same for real'),
      ...block('Command', lines.command), ...block('Python', lines.python), ...block('Go', lines.go));
  }

  // report returns what tests compare with the command line.
  report() {
    const d = this.definition;
    return {
      title: d.title, state: this.state, message: this.status.textContent, seconds: this.result?.seconds,
      checks: this.state === 'done' ? d.checks?.(this.shown, this.result) ?? [] : [],
      facts: this.state === 'done' ? d.facts?.(this.shown, this.result) ?? [] : [],
    };
  }
}

// whole keeps the words of a command together where its lines are wrapped.
function whole(text) {
  return text.split(/( +|\n|(?<=\())/).map((part) => (/\S/.test(part) ? make('span', { class: 'word' }, part) : part));
}

function read(c, text) {
  if (text === null) return c.value;
  if (c.check) return text === 'true';
  if (c.choices) return text in c.choices ? text : c.value;
  return c.values.find((v) => String(v) === text) ?? c.value;
}
