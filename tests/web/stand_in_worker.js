/**
 * A stand-in for the page's worker: it speaks the same protocol, computes nothing, and does what
 * stand-in.json says.
 *
 * It tells the test each question on the channel "stand-in", and reads stand-in.json anew for every question:
 * `inspection`, `fail` (a code by call), `hold` (the progress after which it waits for cancel), `delay` in
 * milliseconds, `verdict`, `remarks` on every prompt.
 */
const channel = new BroadcastChannel('stand-in');
const running = new Map();
const SECONDS = 1.2;

self.addEventListener('message', ({ data }) => {
  channel.postMessage({ ...data, args: named(data.args) });
  if (data.call === 'cancel') return running.get(data.args)?.();
  answer(data);
});

async function answer({ id, call, args }) {
  const cancelled = new Promise((resolve) => running.set(id, resolve)).then(() =>
    fault('cancelled', 'It was cancelled.'),
  );
  cancelled.catch(() => {});
  let settings;
  const tell = async (progress) => {
    self.postMessage({ id, progress });
    const held =
      settings.hold ===
      `${progress.stage} ${progress.step ?? progress.network ?? progress.bytes ?? ''}`.trim();
    await Promise.race([
      cancelled,
      held ? new Promise(() => {}) : new Promise((go) => setTimeout(go, settings.delay)),
    ]);
  };
  try {
    settings = await (await fetch('stand-in.json')).json();
    if (settings.fail?.[call]) fault(settings.fail[call], `The stand-in fails with ${settings.fail[call]}.`);
    self.postMessage({ id, result: await CALLS[call](settings, args, tell) });
  } catch (problem) {
    self.postMessage({ id, error: { code: problem.code ?? 'failed', message: problem.message } });
  }
}

/** A question's arguments, with the names of files in their place. */
function named(args) {
  const image = args?.image && { image: args.image.name };
  const controls = args?.controls && {
    controls: args.controls.map((control) => ({ ...control, image: control.image.name })),
  };
  return image || controls ? { ...args, ...image, ...controls } : args;
}

function fault(code, sentence) {
  throw Object.assign(new Error(sentence), { code });
}

let fetched = null;

const CALLS = {
  async inspect({ inspection }) {
    const there = fetched ?? inspection.bytes.there;
    return {
      ...inspection,
      bytes: { ...inspection.bytes, there },
      space: { ...inspection.space, used: there },
    };
  },

  async fetch({ inspection }, _, tell) {
    const { total } = inspection.bytes;
    for (const megabytes of [12, 412, 900, total / 1e6])
      await tell({ stage: 'fetching', bytes: megabytes * 1e6, total });
    fetched = total;
  },

  async generate({ inspection, remarks }, { prompt, seed, steps, previewEvery, upscale = 1 }, tell) {
    const { width, height } = inspection.model;
    if (remarks) await tell({ stage: 'remarks', remarks });
    await tell({ stage: 'loading', network: 'text encoder' });
    await tell({ stage: 'encoding' });
    await tell({ stage: 'loading', network: 'U-Net' });
    for (let step = 0; step <= steps; step++) {
      const canvas = drawn(prompt, seed, width / 8, height / 8, 1 - step / steps);
      const rgba = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      const preview =
        previewEvery && step && step % previewEvery === 0
          ? { rgba, width: canvas.width, height: canvas.height }
          : undefined;
      await tell({ stage: 'denoising', step, steps, seconds: SECONDS, preview });
    }
    await tell({ stage: 'loading', network: 'VAE decoder' });
    await tell({ stage: 'decoding' });
    if (upscale > 1) {
      await tell({ stage: 'loading', network: 'upscaler' });
      for (const tile of [1, 2, 3]) await tell({ stage: 'enlarging', tile, tiles: 3 });
    }
    const png = await drawn(prompt, seed, upscale * width, upscale * height, 0).convertToBlob();
    return { png, width: upscale * width, height: upscale * height, metadata: { prompt, seed: `${seed}` } };
  },

  async verdict({ verdict }, _, tell) {
    for (const { title } of verdict.networks) await tell({ stage: 'measuring', network: title });
    return verdict;
  },

  async remove() {
    fetched = 0;
  },
};

/** A landscape that depends on the prompt and the seed, with so much noise. */
function drawn(prompt, seed, width, height, noise) {
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext('2d');
  const number = [...`${prompt} ${seed}`].reduce(
    (sum, letter) => (sum * 31 + letter.codePointAt(0)) % 99991,
    7,
  );
  const sky = context.createLinearGradient(0, 0, 0, height);
  sky.addColorStop(0, `hsl(${number % 360} 55% 30%)`);
  sky.addColorStop(1, `hsl(${(number + 60) % 360} 70% 75%)`);
  Object.assign(context, { fillStyle: sky });
  context.fillRect(0, 0, width, height);
  disc(context, width * (0.2 + (number % 7) / 12), height * 0.35, width / 10, '#ffe9a8');
  for (let hill = 0; hill < 3; hill++) {
    disc(
      context,
      width * (((number >> hill) % 10) / 10),
      height * (1.25 + hill / 8),
      width * 0.5,
      `hsl(${number % 360} 30% ${28 - 8 * hill}%)`,
    );
  }
  for (let dot = 0; dot < noise * 900; dot++) {
    context.fillStyle = `hsl(${(dot * 67) % 360} 60% 50% / 0.6)`;
    context.fillRect((dot * 7919) % width, (dot * 104729) % height, width / 24, height / 24);
  }
  return canvas;
}

function disc(context, x, y, radius, fillStyle) {
  Object.assign(context, { fillStyle });
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}
