// Prints the lines that each experiment of the guide shows, for its default settings and for each other
// choice, as JSON: node lines.mjs FOLDER OF THE GUIDE
const { experiments } = await import(`file://${process.argv[2]}/experiments/index.js`);

const all = [];
for (const [name, d] of Object.entries(experiments)) {
  const defaults = Object.fromEntries(d.controls.map((c) => [c.name, c.value]));
  const others = d.controls.flatMap((c) => {
    const values = c.choices ? Object.keys(c.choices) : c.check ? [true] : c.values.includes(0) ? c.values.slice(0, 2) : [];
    return values.map((v) => ({ ...defaults, [c.name]: v }));
  });
  for (const v of [defaults, ...others]) all.push({ name, ...d.real(v) });
}
const seen = new Set();
console.log(JSON.stringify(all.filter((l) => !seen.has(JSON.stringify(l)) && seen.add(JSON.stringify(l)))));
