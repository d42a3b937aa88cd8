// Navigation between chapters, whose settings are in the address: #name?setting=value.

import { Experiment } from './experiment.js';
import { prepare } from './pool.js';
import { experiments } from './experiments/index.js';

const chapters = [...document.querySelectorAll('.chapter')];
const mounted = new Map(); // chapter name to its experiments

// parse returns the chapter and the settings of an address.
export function parse(hash) {
  const [name, query] = hash.replace(/^#/, '').split('?');
  return { name: chapters.some((c) => c.dataset.name === name) ? name : 'start', settings: new URLSearchParams(query ?? '') };
}

function show(moveFocus) {
  const { name, settings } = parse(location.hash);
  for (const c of chapters) c.classList.toggle('current', c.dataset.name === name);
  for (const a of document.querySelectorAll('.contents a')) {
    if (a.getAttribute('href') === `#${name}`) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  const chapter = chapters.find((c) => c.dataset.name === name);
  document.title = `${chapter.querySelector('h1').textContent.trim()} · A guide to DP-SGD`;
  for (const [other, all] of mounted) if (other !== name) all.forEach((e) => e.stop());
  if (!mounted.has(name)) {
    mounted.set(name, [...chapter.querySelectorAll('.experiment')].map((place) =>
      new Experiment(place, experiments[place.dataset.experiment], settings, () => remember(name))));
  } else {
    mounted.get(name).forEach((e) => e.restore(settings));
  }
  if (moveFocus) {
    closeContents();
    scrollTo({ top: 0, behavior: 'instant' });
    document.getElementById('content').focus({ preventScroll: true });
  }
}

// remember puts the settings that differ from the defaults into the address.
function remember(name) {
  if (parse(location.hash).name !== name) return;
  const query = new URLSearchParams();
  for (const e of mounted.get(name) ?? []) e.describe(query);
  const text = query.toString();
  history.replaceState(null, '', text ? `#${name}?${text}` : `#${name}`);
}

const contents = document.getElementById('contents');
const wide = matchMedia('(min-width: 68rem)');
function closeContents() { contents.open = wide.matches; }

document.documentElement.classList.add('live');
wide.addEventListener('change', closeContents);
closeContents();
addEventListener('hashchange', () => show(true));
show(false);
prepare('accounting');

// Tests read this.
globalThis.guide = { experiments: () => [...mounted.values()].flat(), chapters: chapters.map((c) => c.dataset.name) };
