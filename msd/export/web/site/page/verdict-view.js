import { announce, create, find } from './element.js';
import { median, shortTime, size } from './quantity.js';
import { ReportView } from './report-view.js';
import { canShare, save, share } from './share.js';

/**
 * @typedef {import('./protocol.js').NetworkVerdict} NetworkVerdict
 * @typedef {import('./protocol.js').Verdict} Verdict
 * @typedef {import('./work.js').Work} Work
 */

/** Runs of each network at most; the median counts. */
const REPEATS = 5;

/** Facts in sentences. */
const WIDE = new Set(['Browser', 'Problem', 'Not on the GPU']);

/** The page's second view: what each network does on this device's GPU, in numbers. */
export class VerdictView {
  #measure = find(HTMLButtonElement, 'measure');
  #save = find(HTMLButtonElement, 'save-verdict');
  #share = find(HTMLButtonElement, 'share-verdict');
  #result = find(HTMLElement, 'verdict-result');
  #report;
  #work;
  /** @type {Verdict | null} */
  #verdict = null;

  /** @param {Work} work */
  constructor(work) {
    this.#work = work;
    this.#report = new ReportView(find(HTMLElement, 'verdict-report'), () => work.cancel());
    this.#measure.addEventListener('click', () => this.#run());
    this.#save.addEventListener('click', () =>
      save(this.#file('json', 'application/json'), fileName('json')),
    );
    this.#share.addEventListener('click', () => share([this.#shared()]));
  }

  /**
   * Allows to measure, or says why that is not possible now.
   *
   * @param {boolean} allowed
   * @param {string} note
   */
  allow(allowed, note) {
    this.#measure.disabled = !allowed;
    find(HTMLElement, 'verdict-note').textContent = note;
  }

  async #run() {
    const task = {
      report: this.#report,
      opening: 'Beginning',
      call: /** @type {const} */ ('verdict'),
      again: () => this.#run(),
    };
    const verdict = await this.#work.run({ ...task, args: { repeats: REPEATS } });
    if (!verdict) return;
    this.#verdict = verdict;
    this.#show(verdict);
    announce('The GPU has been measured.');
  }

  /** @param {Verdict} verdict */
  #show(verdict) {
    this.#result.replaceChildren(deviceCard(verdict), ...verdict.networks.map(networkCard));
    this.#save.hidden = false;
    this.#share.hidden = !canShare([this.#shared()]);
    this.#measure.textContent = 'Test again';
  }

  /** Browsers share text files, and some no JSON. */
  #shared() {
    const json = this.#file('json', 'application/json');
    return canShare([json]) ? json : this.#file('txt', 'text/plain');
  }

  /**
   * @param {string} suffix
   * @param {string} type
   */
  #file(suffix, type) {
    return new File([`${JSON.stringify(this.#verdict, null, 1)}\n`], fileName(suffix), { type });
  }
}

/** @param {string} suffix */
function fileName(suffix) {
  return `verdict-${new Date().toISOString().slice(0, 10)}.${suffix}`;
}

/** @param {Verdict} verdict */
function deviceCard({ runtime, adapter, precision, browser }) {
  return card('This device', [
    ['GPU', adapter],
    ['Precision', precision === 'fp16' ? 'float16' : 'float32'],
    ['Runtime', runtime === 'litert' ? 'LiteRT.js on WebGPU' : 'WebGPU programs of msd'],
    ['Browser', browser],
  ]);
}

/** @param {NetworkVerdict} network */
function networkCard(network) {
  const name = network.title.replace(/^./, (first) => first.toUpperCase());
  if (network.failure) return card(name, [['Problem', network.failure]]);
  const { operations, delegated, partitions, dispatches, open_ms, first_ms, runs_ms, gpu_bytes, log } =
    network;
  return card(name, [
    ['On the GPU', `${delegated} of ${operations} operations`],
    dispatches === null ? ['Partitions', partitions] : ['Dispatches', dispatches],
    ['Opened in', open_ms === null ? null : shortTime(open_ms)],
    ['First run', first_ms === null ? null : shortTime(first_ms)],
    [later(runs_ms), runs_ms.length ? shortTime(median(runs_ms)) : null],
    ['Agreement (PSNR)', agreement(network)],
    ['GPU memory', gpu_bytes === null ? null : size(gpu_bytes)],
    ['Not on the GPU', log.length ? log.join(' ') : null],
  ]);
}

/** @param {number[]} runs */
function later({ length }) {
  return length === 1 ? 'Second run' : `Median of ${length} runs`;
}

/**
 * Returns how close the outputs are to the expected ones, that of the farthest; null where none are expected.
 *
 * @param {NetworkVerdict} network
 */
function agreement({ outputs }) {
  if (!outputs.length) return null;
  if (!outputs.every((output) => output.finite)) return 'not a number';
  const found = outputs.flatMap(({ psnr_db }) => (psnr_db === null ? [] : [psnr_db]));
  return found.length ? `${Math.min(...found).toFixed(1)} dB` : 'equal';
}

/**
 * @param {string} title
 * @param {[string, string | number | null][]} facts those without a value are left out
 */
function card(title, facts) {
  const known = facts.filter(([, value]) => value !== null);
  const rows = known.map(([name, value]) =>
    create(
      'div',
      { className: WIDE.has(name) ? 'wide' : '' },
      create('dt', { textContent: name }),
      create('dd', { textContent: String(value) }),
    ),
  );
  const list = create('dl', { className: 'facts' }, ...rows);
  return create('section', { className: 'card' }, create('h3', { textContent: title }), list);
}
