const TIMEOUT = 408;
const BUSY = 429;
const SERVER_ERRORS = 500;

/** What a server says before it sends bytes. */
export class Answer {
  #headers;

  /** @param {Response} response */
  constructor(response) {
    this.#headers = response.headers;
    this.status = response.status;
    this.isFromHere = new URL(response.url).origin === location.origin;
  }

  /** How many bytes follow; undefined where the server does not say, or packs them. */
  get length() {
    const said = this.#headers.get('Content-Length');
    if (said === null || !this.isFromHere || this.#headers.has('Content-Encoding')) return undefined;
    return Number(said);
  }

  /** What names this version of the file in If-Range; a weak ETag may stand for other bytes. */
  get tag() {
    const tag = this.#headers.get('ETag');
    return (tag?.startsWith('W/') ? undefined : tag) ?? this.#headers.get('Last-Modified') ?? undefined;
  }

  /** Which bytes follow: the first one's place, and how many the whole file has where the server says. */
  get range() {
    const match = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(this.#headers.get('Content-Range') ?? '');
    if (!match) return undefined;
    return { first: Number(match[1]), total: match[2] === '*' ? undefined : Number(match[2]) };
  }

  /** Whether the same request may succeed later. */
  get isTemporary() {
    return this.status === TIMEOUT || this.status === BUSY || this.status >= SERVER_ERRORS;
  }
}
