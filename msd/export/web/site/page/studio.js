import { MsdError } from '../msd/errors.js';
import { ChecksView } from './checks-view.js';
import { announce, create, find } from './element.js';
import { missing } from './checks.js';
import { Form } from './form.js';
import { History } from './history.js';
import { HistoryView } from './history-view.js';
import { Picture } from './picture.js';
import { ReportView } from './report-view.js';
import { SpaceView } from './space-view.js';
import { thumbnail } from './thumbnail.js';
import { Work } from './work.js';

/**
 * @typedef {import('./history.js').Kept} Kept
 * @typedef {import('./protocol.js').Generated} Generated
 * @typedef {import('./protocol.js').Inspection} Inspection
 * @typedef {import('./protocol.js').PictureRequest} PictureRequest
 * @typedef {import('./protocol.js').Progress} Progress
 * @typedef {import('./work.js').Task} Task
 * @typedef {import('./worker-client.js').WorkerClient} WorkerClient
 */

const NOT_KEPT = 'This browser did not keep the picture. Save it to keep it.';
const BUSY = 'An earlier picture can be shown as soon as what is being done has ended.';

/** The page's first view: what the model needs, what to generate, the picture, and earlier ones. */
export class Studio {
  #history = new History();
  #checks = new ChecksView(
    () => this.fetch(this.#checksReport),
    () => this.inspect(),
  );
  #form = new Form((request) => this.generate(request));
  #picture = new Picture(
    (picture) => this.#form.fill(picture.settings),
    (picture) => this.#delete(picture),
  );
  #earlier = new HistoryView(this.#history, (picture) => this.#present(picture));
  #space = new SpaceView(() => this.#remove());
  #checksReport = new ReportView(find(HTMLElement, 'checks-report'), () => this.work.cancel());
  #stageReport = new ReportView(find(HTMLElement, 'stage-report'), () => this.work.cancel());
  /** @type {Inspection | null} */
  #inspection = null;
  #inspecting = true;
  #client;

  /** Called when it becomes possible to use the GPU, or impossible, and why. */
  onChange = (/** @type {boolean} */ _allowed, /** @type {string} */ _why) => {};

  /** @param {WorkerClient} client */
  constructor(client) {
    this.#client = client;
    this.work = new Work(
      client,
      (task) => this.#ways(task),
      () => {
        this.#picture.note('');
        this.#refresh();
      },
    );
    this.#refresh();
  }

  /** Shows earlier pictures and what this device can do. */
  async start() {
    await Promise.all([this.#refreshHistory(), this.inspect()]);
  }

  /** Asks the worker what the model needs and what is there. */
  async inspect() {
    this.#inspecting = true;
    try {
      const inspection = /** @type {Inspection} */ (await this.#client.call('inspect'));
      this.#inspection = inspection;
      await this.#show(inspection);
    } catch (problem) {
      const error = problem instanceof MsdError ? problem : new MsdError('failed', `${problem}`, problem);
      this.#stageReport.fail(error, { again: () => this.#retryInspect(), reload: () => location.reload() });
    }
    this.#inspecting = false;
    this.#refresh();
  }

  /**
   * Fetches what is missing of the model; returns whether all is there.
   *
   * @param {ReportView} report
   * @returns {Promise<boolean>}
   */
  async fetch(report) {
    // Asked on a press of a button, a browser rather grants that it will not delete the model on its own.
    navigator.storage?.persist?.();
    await this.work.run({
      report,
      opening: 'Fetching the model',
      call: 'fetch',
      again: () => this.fetch(report),
    });
    await this.#inspectQuietly();
    const there = this.#inspection !== null && !missing(this.#inspection);
    if (there) {
      find(HTMLElement, 'generate').focus({ preventScroll: true });
      announce('The model is on this device.');
    }
    return there;
  }

  /**
   * Generates a picture, shows it and keeps it.
   *
   * @param {PictureRequest} request
   */
  async generate(request) {
    const began = performance.now();
    const again = () => this.generate(request);
    const task = {
      report: this.#stageReport,
      opening: 'Beginning',
      call: /** @type {const} */ ('generate'),
      args: request,
      again,
    };
    find(HTMLElement, 'stage').scrollIntoView({ block: 'nearest' });
    this.#remark([]);
    this.#picture.begin();
    const made = await this.work.run({ ...task, onProgress: (progress) => this.#follow(progress) });
    if (!made) return this.#picture.restore();
    const seconds = (performance.now() - began) / 1000;
    const isKept = await this.#keep(request, made, seconds);
    if (!isKept) this.#picture.note(NOT_KEPT);
    announce(`The picture is done. Its seed is ${request.seed}.${isKept ? '' : ` ${NOT_KEPT}`}`);
    if (request.upscale || request.controls) await this.#inspectQuietly();
  }

  /** Whether the GPU may be used now, and why not. */
  get readiness() {
    const why = this.#obstacle();
    return { allowed: !why && !this.work.busy, why };
  }

  /** Generates what the form says. */
  submit() {
    this.#form.submit();
  }

  /** @param {Inspection} inspection */
  async #show(inspection) {
    const { gpu, model, optional, space } = inspection;
    this.#stageReport.clear();
    this.#checks.show(inspection);
    await this.#form.offer(model, optional);
    this.#space.show(space);
    find(HTMLElement, 'slower').hidden = gpu.precision === 'fp16' || gpu.problems.length > 0;
    const licence = model.licence ? ` Its licence: ${model.licence}.` : '';
    find(HTMLElement, 'model-facts').textContent =
      `The model ${model.name} makes pictures of ${model.width} by ${model.height} pixels` +
      ` with the scheduler ${model.scheduler}.${licence}`;
  }

  #refresh() {
    const { allowed, why } = this.readiness;
    this.#form.allow(allowed, why);
    this.#checks.allow(!this.work.busy);
    this.#space.allow(!this.work.busy);
    this.onChange(allowed, why);
  }

  /** Returns why this device cannot generate now; empty where it can. */
  #obstacle() {
    if (this.#inspecting && !this.#inspection) return 'Looking at what this device can do.';
    if (!this.#inspection) return 'The description of the model could not be read.';
    if (this.#inspection.gpu.problems.length) return 'This device or browser cannot run the model.';
    return missing(this.#inspection) ? 'The model has to be fetched first.' : '';
  }

  /**
   * @param {Task} task
   * @returns {Partial<Record<import('./advice.js').Way, () => void>>}
   */
  #ways(task) {
    const fetchAndGoOn = async () => {
      if (await this.fetch(task.report)) task.again();
    };
    const ways = { again: task.again, fetch: fetchAndGoOn, reload: () => location.reload() };
    return this.#earlier.empty ? ways : { ...ways, room: () => this.#earlier.makeRoom() };
  }

  /** @param {Progress} progress */
  #follow(progress) {
    if (progress.stage === 'denoising' && progress.preview) this.#picture.preview(progress.preview);
    if (progress.stage === 'remarks') this.#remark(progress.remarks);
  }

  /**
   * Says what of a request is not used as it may have been meant.
   *
   * @param {string[]} remarks
   */
  #remark(remarks) {
    const list = find(HTMLElement, 'remarks');
    list.hidden = !remarks.length;
    list.replaceChildren(...remarks.map((textContent) => create('li', { textContent })));
    if (remarks.length) announce(remarks.join('. '));
  }

  /**
   * Shows a picture, and returns whether this browser keeps it.
   *
   * @param {PictureRequest} request
   * @param {Generated} made
   * @param {number} seconds
   * @returns {Promise<boolean>}
   */
  async #keep(request, { png, width, height }, seconds) {
    const { prompt, negativePrompt, seed, steps, guidance } = request;
    const settings = { prompt, negativePrompt, seed: `${seed}`, steps: `${steps}`, guidance: `${guidance}` };
    const picture = { created: Date.now(), seconds, width, height, settings, png };
    try {
      const id = await this.#history.add({ ...picture, thumbnail: await thumbnail(png) });
      this.#picture.show({ ...picture, thumbnail: png, id });
      await this.#earlier.refresh(id);
      return true;
    } catch {
      this.#picture.show({ ...picture, thumbnail: png });
      return false;
    }
  }

  /**
   * Shows an earlier picture, or none, unless there is work whose picture or report is on the stage.
   *
   * @param {Kept | null} picture
   * @returns {boolean} whether it is shown
   */
  #present(picture) {
    if (this.work.busy) {
      if (picture) this.#picture.note(BUSY);
      if (picture) announce(BUSY);
      return false;
    }
    this.#picture.show(picture);
    if (picture) find(HTMLElement, 'stage').scrollIntoView({ block: 'nearest' });
    return true;
  }

  /** @param {Kept} picture */
  async #delete(picture) {
    if (picture.id === undefined) return;
    await this.#history.remove(picture.id);
    this.#picture.show(null);
    await this.#earlier.refresh();
    find(HTMLElement, 'generate').focus({ preventScroll: true });
    announce('The picture has been deleted.');
  }

  async #remove() {
    const report = this.#stageReport;
    await this.work.run({
      report,
      opening: 'Deleting the model',
      call: 'remove',
      again: () => this.#remove(),
    });
    await this.#inspectQuietly();
  }

  /** Looks again after work, and leaves what a report tells of it. */
  async #inspectQuietly() {
    try {
      this.#inspection = /** @type {Inspection} */ (await this.#client.call('inspect'));
      this.#checks.show(this.#inspection);
      this.#space.show(this.#inspection.space);
      this.#form.tell(this.#inspection.optional);
    } catch {
      // What was known before still tells more than nothing.
    }
    this.#refresh();
  }

  #retryInspect() {
    this.#stageReport.clear();
    this.#client.restart();
    return this.inspect();
  }

  async #refreshHistory() {
    try {
      await this.#earlier.refresh();
    } catch {
      // A browser may refuse to keep anything, in private windows for example; then there is no history.
    }
  }
}
