// A worker runs one instance of a module that the page compiled. It answers one request at a time.
importScripts('wasm_exec.js');

let ready;
self.dptrainReady = () => ready();

self.onmessage = async ({ data }) => {
  if (data.module) {
    const go = new Go();
    const started = new Promise((resolve) => { ready = resolve; });
    const instance = await WebAssembly.instantiate(data.module, go.importObject);
    go.run(instance);
    await started;
    self.postMessage({ started: true });
    return;
  }
  const { id, call, args } = data;
  const progress = (text) => self.postMessage({ id, progress: JSON.parse(text) });
  const r = self.dptrain[call](...args, progress);
  self.postMessage({ id, value: r.value, error: r.error });
};
