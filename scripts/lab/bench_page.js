// What scripts/lab/bench_page.py evaluates in a page: the networks of sites, which the server has as /RUNTIME/.
(() => {
  const found = { errors: [] };

  // Every device tells of what nobody asks it about.
  const requestDevice = GPUAdapter.prototype.requestDevice;
  GPUAdapter.prototype.requestDevice = async function (...args) {
    const device = await requestDevice.apply(this, args);
    device.addEventListener('uncapturederror', ({ error }) => found.errors.push(error.message));
    return device;
  };

  // Returns what devices have told since the last time: how often, and the first.
  const errors = () => {
    const [first] = found.errors;
    const count = found.errors.splice(0).length;
    return count ? { gpu_errors: count, first_gpu_error: first.slice(0, 1500) } : {};
  };

  const load = (runtime, module) => import(new URL(`/${runtime}/msd/${module}.js`, location.href).href);

  const site = async (runtime) => {
    const base = new URL(`/${runtime}/model/`, location.href);
    const read = async ({ file }) => (await fetch(new URL(file, base))).arrayBuffer();
    const json = async (name) => JSON.parse(new TextDecoder().decode(await read({ file: name })));
    const web = await json('web-manifest.json');
    return { base, read, web, app: await json('sd-manifest.json') };
  };

  // Returns what the browser says of its GPU, and what it lacks for the model.
  const gpu = async (runtime) => {
    const { findGpu } = await load(runtime, 'gpu');
    return findGpu((await site(runtime)).web);
  };

  // Opens a device and lets it do something, so that a driver's own memory is taken before a network is.
  const warm = async (runtime) => {
    const { findGpu, openDevice } = await load(runtime, 'gpu');
    found.device ??= await openDevice(await findGpu((await site(runtime)).web));
    const buffer = found.device.createBuffer({ size: 1 << 20, usage: GPUBufferUsage.COPY_DST });
    found.device.queue.writeBuffer(buffer, 0, new Uint8Array(1 << 20));
    await found.device.queue.onSubmittedWorkDone();
    buffer.destroy();
  };

  const openers = {
    msd: async ({ base, read, web }, network, clock) => {
      const { findGpu, openDevice } = await load('msd', 'gpu');
      const { openProgram } = await load('msd', 'program');
      const chosen = await findGpu(web);
      found.device ??= await openDevice(chosen);
      const { program, shards } = network.programs[chosen.kind];
      const description = JSON.parse(new TextDecoder().decode(await clock(() => read(program))));
      return openProgram(found.device, description, (index) => clock(() => read(shards[index])));
    },
    litert: async ({ base, read, web }, network, clock) => {
      const { openLiteRt } = await load('litert', 'litert');
      const whole = () =>
        clock(async () => {
          const file = new Uint8Array(network.model.reduce((sum, { bytes }) => sum + bytes, 0));
          let at = 0;
          for (const shard of network.model) {
            file.set(new Uint8Array(await read(shard)), at);
            at += shard.bytes;
          }
          return file;
        });
      return openLiteRt(web.litert, base, whole, network);
    },
  };

  // Opens a network; `read_seconds` of `open_seconds` went to fetching its files from the server.
  const open = async (runtime, role) => {
    const place = await site(runtime);
    const network = place.web.networks.find((each) => each.role === role);
    let reading = 0;
    const clock = async (action) => {
      const begin = performance.now();
      const result = await action();
      reading += performance.now() - begin;
      return result;
    };
    const begin = performance.now();
    const opened = await openers[runtime](place, network, clock);
    const seconds = (performance.now() - begin) / 1000;
    const { expectedInputs } = await load(runtime, 'verdict');
    const file = place.app.files.find((each) => each.role === role);
    const inputs = expectedInputs(file, network.expected ?? { seed: 0, tokens: 1000 });
    found[runtime] = { opened, inputs, network, place };
    return { open_seconds: seconds, read_seconds: reading / 1000, ...opened.facts, ...errors() };
  };

  // Runs a network once, and compares what it computes with what the export brought along.
  const run = async (runtime) => {
    const { opened, inputs, network, place } = found[runtime];
    const { distance } = await load(runtime, 'verdict');
    const begin = performance.now();
    const outputs = await opened.run(inputs);
    const seconds = (performance.now() - begin) / 1000;
    const wanted = Object.entries(network.expected?.outputs ?? {});
    const distances = [];
    for (const [name, file] of wanted) {
      distances.push(distance(name, outputs[name], new Float32Array(await place.read(file))));
    }
    const finite = Object.values(outputs).every((values) => values.every(Number.isFinite));
    return { first_seconds: seconds, finite, outputs: distances, ...errors() };
  };

  // Runs networks in turn: the milliseconds of each run, by runtime.
  const turns = async (runtimes, repeats) => {
    const times = Object.fromEntries(runtimes.map((runtime) => [runtime, []]));
    for (let i = 0; i < repeats; i += 1) {
      for (const runtime of runtimes) {
        const { opened, inputs } = found[runtime];
        times[runtime].push(...(await opened.time(inputs, 1)));
      }
    }
    return times;
  };

  // Asks the worker of the page that is shown, and returns its answer with the milliseconds of each progress.
  const ask = async (call, args) => {
    found.worker ??= new Worker(new URL('worker.js', location.href), { type: 'module' });
    const id = (found.asked = (found.asked ?? 0) + 1);
    const begin = performance.now();
    const progress = [];
    const result = await new Promise((resolve, reject) => {
      found.worker.onerror = (event) => reject(new Error(event.message));
      found.worker.onmessage = ({ data }) => {
        if (data.id !== id) return;
        if (data.progress) {
          const { preview, ...said } = data.progress;
          if (said.stage !== 'fetching') progress.push({ at: performance.now() - begin, ...said });
        } else if (data.error) reject(new Error(`${data.error.code}: ${data.error.message}`));
        else resolve(data.result);
      };
      found.worker.postMessage({ id, call, args });
    });
    return { milliseconds: performance.now() - begin, progress, result };
  };

  // Generates a picture, and returns it as base64 with the milliseconds of its parts.
  const picture = async (args) => {
    const { milliseconds, progress, result } = await ask('generate', args);
    const bytes = new Uint8Array(await new Blob([result.png]).arrayBuffer());
    const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join('');
    return { milliseconds, progress, png: btoa(text), metadata: result.metadata };
  };

  globalThis.bench = { gpu, warm, open, run, turns, ask, picture };
})();
