// Visits every chapter of the guide, runs its experiments, and reports to the test's server.
(() => {
  const tour = { Faults: [], Violations: [], Axe: false, Experiments: [] };
  const fault = (text) => tour.Faults.push(String(text));
  const error = console.error;
  console.error = (...all) => { fault(`console: ${all.join(' ')}`); error(...all); };
  console.warn = (...all) => fault(`console: ${all.join(' ')}`);
  addEventListener('error', (e) => fault(`error: ${e.message} ${e.filename}:${e.lineno}`));
  addEventListener('unhandledrejection', (e) => fault(`rejected: ${e.reason}`));
  document.addEventListener('securitypolicyviolation', (e) => fault(`policy: ${e.violatedDirective} ${e.blockedURI}`));
  const mode = location.search.slice(1);
  const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  // Shorter runs where the tour has been taken in full.
  const settings = { noise: mode === 'full' ? '' : '?steps=20&lot=100', memory: mode === 'full' ? '' : '?records=100&passes=10&privacy=8', mistakes: mode === 'full' ? '' : '?mistake=float&mended=true&trials=100' };
  // Other settings of experiments that are also visited.
  const more = mode === 'full' ? ['mistakes?mistake=normaliser', 'mistakes?mistake=seed', 'mistakes?mistake=float', 'mistakes?mistake=normaliser&mended=true', 'epsilon?kind=gaussian', 'epsilon?kind=exponential', 'glossary?damage=true'] : [];

  async function visit(name, query, first) {
    location.hash = `${name}${query}`;
    await sleep(100);
    const chapter = document.querySelector(`[data-name=${name}]`);
    for (const e of guide.experiments().filter((x) => chapter.contains(x.place))) {
      if (e.definition.button) await e.run();
      else for (let i = 0; i < 1200 && (e.state === 'waiting' || e.state === 'running'); i++) await sleep(50);
      const report = e.report();
      if (first) tour.Experiments.push({ Chapter: name, ...report });
      else {
        for (const f of report.facts) if (!f.holds) fault(`${name}${query}: it does not hold that ${f.name}`);
        if (report.state !== 'done') fault(`${name}${query}: ${report.state} ${report.message}`);
        tour.Experiments.find((x) => x.title === report.title)?.checks.push(...report.checks);
      }
    }
    const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (wide > 0) fault(`${name}: the page is ${wide} pixels too wide`);
    if (globalThis.axe) {
      tour.Axe = true;
      const found = await axe.run(document, { resultTypes: ['violations'] });
      for (const v of found.violations) tour.Violations.push(`${name}: axe: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' | ')}`);
    }
  }

  addEventListener('load', async () => {
    try {
      for (let i = 0; i < 200 && !globalThis.guide; i++) await sleep(50);
      for (const name of guide.chapters) await visit(name, settings[name] ?? '', true);
      for (const address of more) await visit(address.split('?')[0], `?${address.split('?')[1]}`, false);
    } catch (e) {
      fault(`tour: ${e.stack ?? e}`);
    }
    await fetch('/report', { method: 'POST', body: JSON.stringify(tour) });
  });
})();
