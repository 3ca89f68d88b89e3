import { create, find } from './element.js';
import { keep, kept } from './kept.js';

/**
 * @typedef {import('./protocol.js').ModelFacts} ModelFacts
 * @typedef {import('./protocol.js').PictureRequest} PictureRequest
 * @typedef {import('./optional.js').Optional} Optional
 * @typedef {import('./initial-image-view.js').InitialImageView} InitialImageView
 * @typedef {import('./controls-view.js').ControlsView} ControlsView
 * @typedef {import('./upscale-view.js').UpscaleView} UpscaleView
 * @typedef {{ prompt: string, negativePrompt: string, seed: string, steps: string, guidance: string }} Fields
 */

const KEY = 'msd-form';
const MOST_SEED = (1n << 63n) - 1n;
const BAD_SEED = `A seed is a whole number from 0 to ${MOST_SEED}.`;
/** Random seeds are below this: short enough to be typed again. */
const RANDOM_SEEDS = 2 ** 32;
/** Steps between two previews, where the model has a network for them. */
const PREVIEW_EVERY = 2;

/** What the user wants, kept over reloads. */
export class Form {
  #form = find(HTMLFormElement, 'form');
  #fields = {
    prompt: find(HTMLTextAreaElement, 'prompt'),
    negativePrompt: find(HTMLTextAreaElement, 'negative-prompt'),
    seed: find(HTMLInputElement, 'seed'),
    steps: find(HTMLSelectElement, 'steps'),
    guidance: find(HTMLInputElement, 'guidance'),
  };
  #submit = find(HTMLButtonElement, 'generate');
  #note = find(HTMLElement, 'form-note');
  #example = find(HTMLButtonElement, 'example');
  /** @type {ModelFacts | null} */
  #facts = null;
  /** @type {Partial<Fields>} */
  #kept = kept(KEY) ?? {};
  /** @type {InitialImageView | null} */
  #initial = null;
  /** @type {ControlsView | null} */
  #controls = null;
  /** @type {UpscaleView | null} */
  #upscale = null;

  /** @param {(request: PictureRequest) => void} onSubmit */
  constructor(onSubmit) {
    this.#write(this.#kept);
    this.#form.addEventListener('input', () => this.#changed());
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      if (!this.#submit.disabled) onSubmit(this.#read());
    });
    this.#example.addEventListener('click', () => this.fill({ prompt: this.#example.value }));
    find(HTMLButtonElement, 'dice').addEventListener('click', () => {
      this.#fields.seed.value = String(randomSeed());
      this.#changed();
    });
  }

  /**
   * Offers what a model can do. What paints masks, takes pictures that steer or enlarges is fetched only for
   * a model that does.
   *
   * @param {ModelFacts} facts
   * @param {Optional} optional
   */
  async offer(facts, optional) {
    this.#facts = facts;
    const { steps, guidance } = this.#fields;
    steps.replaceChildren(...facts.steps.map((count) => create('option', { textContent: String(count) })));
    guidance.value ||= String(facts.guidance);
    this.#example.value = facts.example;
    this.#example.hidden = !facts.example;
    this.#write({ steps: this.#kept.steps });
    if (facts.image) this.#initial ??= new (await import('./initial-image-view.js')).InitialImageView();
    this.#initial?.offer(facts);
    if (facts.controls.length)
      this.#controls ??= new (await import('./controls-view.js')).ControlsView();
    if (facts.upscaler) this.#upscale ??= new (await import('./upscale-view.js')).UpscaleView();
    this.tell(optional);
    this.#show();
  }

  /**
   * Says what the optional networks cost now.
   *
   * @param {Optional} optional
   */
  tell(optional) {
    if (!this.#facts) return;
    this.#controls?.offer(this.#facts, optional);
    this.#upscale?.offer(this.#facts.upscaler, optional);
  }

  /**
   * Allows to generate, or says why that is not possible now.
   *
   * @param {boolean} allowed
   * @param {string} note
   */
  allow(allowed, note) {
    this.#submit.disabled = !allowed;
    this.#note.textContent = note;
  }

  /** Generates, where that is allowed and all is filled in. */
  submit() {
    if (!this.#submit.disabled) this.#form.requestSubmit();
  }

  /**
   * Takes over the settings of an earlier picture.
   *
   * @param {Partial<Fields>} fields
   */
  fill(fields) {
    this.#write(fields);
    this.#changed();
    this.#fields.prompt.focus();
  }

  #changed() {
    keep(KEY, this.#values());
    this.#show();
  }

  #show() {
    const { seed, steps } = this.#fields;
    seed.setCustomValidity(isSeed(seed.value.trim()) ? '' : BAD_SEED);
    find(HTMLElement, 'negative-field').hidden = !this.#hasSecondPass();
    this.#initial?.setSteps(Number(steps.value));
  }

  /** A negative prompt needs a pass of its own: there is none at scale 1, or where the scale is embedded. */
  #hasSecondPass() {
    return this.#facts?.mode !== 'embedding' && Number(this.#fields.guidance.value) > 1;
  }

  /** @returns {Fields} */
  #values() {
    const { prompt, negativePrompt, seed, steps, guidance } = this.#fields;
    return {
      prompt: prompt.value,
      negativePrompt: negativePrompt.value,
      seed: seed.value,
      steps: steps.value || (this.#kept.steps ?? ''),
      guidance: guidance.value,
    };
  }

  /** @param {Partial<Fields>} fields */
  #write(fields) {
    for (const [name, field] of Object.entries(this.#fields)) {
      const value = fields[/** @type {keyof Fields} */ (name)];
      const known =
        !(field instanceof HTMLSelectElement) || [...field.options].some((option) => option.value === value);
      if (value !== undefined && known) field.value = value;
    }
  }

  /** @returns {PictureRequest} */
  #read() {
    const { prompt, negativePrompt, seed, steps, guidance } = this.#values();
    const exact = BigInt(seed.trim() || randomSeed());
    return {
      prompt,
      negativePrompt: this.#hasSecondPass() ? negativePrompt : '',
      seed: exact <= Number.MAX_SAFE_INTEGER ? Number(exact) : exact,
      steps: Number(steps),
      guidance: Number(guidance),
      previewEvery: this.#facts?.preview ? PREVIEW_EVERY : 0,
      ...this.#initial?.read(),
      ...this.#controls?.read(),
      ...this.#upscale?.read(),
    };
  }
}

function randomSeed() {
  return Math.floor(Math.random() * RANDOM_SEEDS);
}

/** @param {string} text */
function isSeed(text) {
  return /^\d*$/.test(text) && BigInt(text) <= MOST_SEED;
}
