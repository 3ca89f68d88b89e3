/** Stand-ins for networks: a few sums, the same as in tests/app_bundles.py. */

const CONTEXT = 5;

/** Returns a network of sums for a file of sd-manifest.json; `log` receives what happens to it. */
export function openSums(file, log) {
  log.push(`open ${file.role}`);
  return {
    facts: { operations: 1, delegated: 1, precision: 'fp32' },
    async run(inputs) {
      log.push(`run ${file.role}`);
      return { [file.outputs[0].name]: Float32Array.from(NETWORKS[file.role](inputs, file)) };
    },
    async time() {
      return [1];
    },
    close() {
      log.push(`close ${file.role}`);
    },
  };
}

const NETWORKS = {
  text_encoder: ({ tokens }) =>
    [...tokens].flatMap((token, i) =>
      Array.from({ length: CONTEXT }, (_, c) => ((token * (c + 1) * 31 + (i % 77) * 7) % 97) / 97 - 0.5),
    ),
  unet: predict,
  vae_decoder: ({ latent }, file) => decode(latent, ...file.inputs[0].shape.slice(1)),
  vae_encoder: ({ image }, file) => encodeImage(image, ...file.inputs[0].shape.slice(1)),
};

function predict({ latent, context, ...told }, file) {
  const [batch, rows, columns, channels] = file.inputs.find((port) => port.name === 'latent').shape;
  const x = channels === 9 ? mixed(latent) : latent;
  const size = rows * columns * 4;
  const shift = Object.values(told).reduce((sum, value) => sum + toldOf(value.slice(0, value.length / batchOf(value))), 0);
  return Array.from({ length: batch }, (_, n) => {
    const row = x.slice(n * size, (n + 1) * size);
    const text = context.slice((n * context.length) / batch, ((n + 1) * context.length) / batch);
    const words = text.reduce((sum, value, i) => sum + value * ((i % 5) + 1), 0) / text.length;
    return Array.from(row, (value, i) => 0.6 * value + 0.3 * row[(i + 1) % size] + words + shift);
  }).flat();

  function batchOf(value) {
    return value.length === 1 ? 1 : batch;
  }
}

function mixed(latent) {
  return Float64Array.from({ length: (latent.length / 9) * 4 }, (_, i) => {
    const at = Math.floor(i / 4) * 9;
    return latent[at + (i % 4)] + 0.1 * latent[at + 4] + 0.05 * latent[at + 5 + (i % 4)];
  });
}

function toldOf(row) {
  return row.reduce((sum, value, i) => sum + value * (i + 1), 0) / (row.length * 1000);
}

function decode(latent, rows, columns) {
  const image = [];
  for (let y = 0; y < rows * 8; y += 1) {
    for (let x = 0; x < columns * 8; x += 1) {
      const at = (Math.floor(y / 8) * columns + Math.floor(x / 8)) * 4;
      for (let c = 0; c < 3; c += 1) image.push(0.4 * latent[at + c] + 0.1 * latent[at + 3]);
    }
  }
  return image;
}

function encodeImage(image, height, width) {
  const moments = [];
  for (let y = 0; y < height; y += 8) {
    for (let x = 0; x < width; x += 8) {
      const corner = image.slice((y * width + x) * 3, (y * width + x) * 3 + 3);
      for (let i = 0; i < 4; i += 1) moments.push(0.7 * corner[i % 3] + 0.1 * i);
      for (let i = 0; i < 4; i += 1) moments.push(0.3 * corner[i % 3] - 2);
    }
  }
  return moments;
}
