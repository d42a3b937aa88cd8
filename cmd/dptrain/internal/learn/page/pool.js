// Pools of workers. A module is compiled once, and each worker is an instance of it. The module itself
// divides a request into parts and merges the answers.

const pools = {};

// ask answers a request of an operation. signal ends the work: workers that are busy are stopped.
export async function ask(module, name, request, { signal, progress } = {}) {
  const pool = pools[module] ??= new Pool(module);
  return pool.ask(name, JSON.stringify(request), signal, progress ?? (() => {}));
}

// prepare begins to load a module.
export function prepare(module) { (pools[module] ??= new Pool(module)).compiled().catch(() => {}); }

class Pool {
  constructor(module) {
    this.module = module;
    this.idle = [];
    this.waiting = [];
    this.alive = 0;
    const cores = navigator.hardwareConcurrency || 2;
    // An instance of the engine takes some 200 MB with its digits.
    this.size = module === 'engine' ? Math.min(2, cores) : Math.min(4, cores);
  }

  compiled() {
    return this.code ??= compile(`${this.module}.wasm`);
  }

  async ask(name, request, signal, progress) {
    const parts = JSON.parse(await this.call('split', [name, request, this.size], signal));
    const shares = parts.map(() => 0);
    const answers = await Promise.all(parts.map((part, i) => this.call('answer', [name, JSON.stringify(part)], signal, (p) => {
      if (typeof p !== 'number') return progress(p);
      shares[i] = p;
      progress(shares.reduce((a, b) => a + b, 0) / shares.length);
    })));
    return JSON.parse(await this.call('merge', [name, `[${answers.join(',')}]`], signal));
  }

  async call(call, args, signal, progress) {
    signal?.throwIfAborted();
    const worker = await this.acquire();
    if (signal?.aborted) {
      this.release(worker);
      signal.throwIfAborted();
    }
    return new Promise((resolve, reject) => {
      const stop = () => {
        worker.terminate();
        if (this.first === worker) this.first = undefined;
        this.alive--;
        this.next();
        reject(signal.reason);
      };
      signal?.addEventListener('abort', stop, { once: true });
      worker.onmessage = ({ data }) => {
        if ('progress' in data) return progress?.(data.progress);
        signal?.removeEventListener('abort', stop);
        this.release(worker);
        if (data.error) reject(new Error(data.error));
        else resolve(data.value);
      };
      worker.onerror = (e) => reject(new Error(e.message || 'the worker failed'));
      worker.postMessage({ call, args });
    });
  }

  async acquire() {
    if (this.idle.length) return this.idle.pop();
    if (this.alive < this.size) {
      this.alive++;
      try {
        return await this.start();
      } catch (e) {
        this.alive--;
        throw e;
      }
    }
    return new Promise((resolve, reject) => this.waiting.push({ resolve, reject }));
  }

  async start() {
    const module = await this.compiled();
    const worker = new Worker('worker.js');
    await new Promise((resolve, reject) => {
      worker.onmessage = resolve;
      worker.onerror = (e) => reject(new Error(e.message || 'the worker did not start'));
      worker.postMessage({ module });
    });
    this.first ??= worker;
    return worker;
  }

  // The worker that started first is used first: it has drawn the digits.
  release(worker) {
    const next = this.waiting.shift();
    if (next) next.resolve(worker);
    else if (worker === this.first) this.idle.push(worker);
    else this.idle.unshift(worker);
  }

  // next starts a worker for a request that waits, in the place of one that was stopped.
  next() {
    const next = this.waiting.shift();
    if (next) this.acquire().then(next.resolve, next.reject);
  }
}

async function compile(file) {
  const response = await fetch(file);
  if (!response.ok) throw new Error(`${file} cannot be loaded: status ${response.status}`);
  if (response.headers.get('Content-Type')?.startsWith('application/wasm')) {
    return WebAssembly.compileStreaming(response);
  }
  return WebAssembly.compile(await response.arrayBuffer());
}
