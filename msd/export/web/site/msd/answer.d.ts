/** What a server says before it sends bytes. */
export class Answer {
    /** @param {Response} response */
    constructor(response: Response);
    status: number;
    isFromHere: boolean;
    /** How many bytes follow; undefined where the server does not say, or packs them. */
    get length(): number | undefined;
    /** What names this version of the file in If-Range; a weak ETag may stand for other bytes. */
    get tag(): string | undefined;
    /** Which bytes follow: the first one's place, and how many the whole file has where the server says. */
    get range(): {
        first: number;
        total: number | undefined;
    } | undefined;
    /** Whether the same request may succeed later. */
    get isTemporary(): boolean;
    #private;
}
