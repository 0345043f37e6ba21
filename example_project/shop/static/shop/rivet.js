/**
 * One actor, followed and talked to from a browser: its events over a WebSocket, in order and once each, also after
 * the connection was lost; its actions, queues and history over HTTP.
 *
 *     const checkout = new RivetActor("shop.CheckoutActor", "main");
 *     checkout.addEventListener("event", ({ detail }) => show(detail.name, detail.payload, detail.seq));
 *     checkout.addEventListener("stale", () => readEverythingAnew());
 *     checkout.subscribe();
 *     checkout.connect();
 *     await checkout.send("orders", { id: "order-1" });
 *
 * Events that it dispatches, each with a `detail`:
 *
 *   "event"   {name, payload, seq}: seq is undefined for events that are not stored
 *   "stale"   {reason}: what was read before may be out of date, and no event will tell of it. Comes after each
 *             connection ("connected") and where events were pruned before they could be sent ("gap", with from and to)
 *             or another actor has the key now ("replaced")
 *   "status"  {status, seconds}: "connecting", "open", "waiting" (for `seconds`, then it tries again), "refused" (it
 *             does not), "closed"
 *   "refusal" {code, message}: the server did not take a frame
 */
export class RivetActor extends EventTarget {
  #address;
  #socketAddress;
  #csrfToken;
  #pauses;
  #socket = null;
  #timer = 0;
  #failures = 0;
  #isWanted = false;
  #status = "closed";
  #names = null; // null: nothing is subscribed to; an empty set: all events
  #hasSubscribed = false; // on this connection: the first frame says since when
  #seq = null;

  /**
   * @param {string} type  the type name, like "shop.CheckoutActor"
   * @param {string|string[]} key
   * @param {object} options
   *   api: where the HTTP routes are; socket: where those of the WebSocket are; csrfToken: a function;
   *   firstPause, longestPause: milliseconds between attempts to connect; since: the number of the last event that is
   *   known already, 0 for all that are stored
   */
  constructor(type, key, options = {}) {
    super();
    const { api = "/api/", socket = "/ws/rivet/", csrfToken = csrfCookie } = options;
    const place = `${encodeURIComponent(type)}/${encodeURIComponent(keyInAddress(key))}/`;
    this.#address = new URL(`${api}actors/${place}`, location.href).href;
    const ws = new URL(`${socket}${place}`, location.href);
    ws.protocol = ws.protocol === "https:" ? "wss:" : "ws:";
    this.#socketAddress = ws.href;
    this.#csrfToken = csrfToken;
    this.#pauses = { first: options.firstPause ?? 500, longest: options.longestPause ?? 30000 };
    this.#seq = options.since ?? null;
  }

  /** The number of the last event that was dealt with; null before the first connection. */
  get seq() {
    return this.#seq;
  }

  get status() {
    return this.#status;
  }

  // Live -------------------------------------------------------------------------------------------

  /** Connect, and come back whenever the connection is lost, until `close()`. */
  connect() {
    if (this.#isWanted) return;
    this.#isWanted = true;
    this.#failures = 0;
    window.addEventListener("online", this.#comeBack);
    window.addEventListener("offline", this.#leave);
    this.#open();
  }

  close() {
    this.#isWanted = false;
    window.removeEventListener("online", this.#comeBack);
    window.removeEventListener("offline", this.#leave);
    clearTimeout(this.#timer);
    this.#drop();
    this.#setStatus("closed");
  }

  /** Events of these names, beside those of earlier calls; of all names where none is given. */
  subscribe(...names) {
    if (this.#names === null) this.#names = new Set(names);
    else if (names.length === 0) this.#names.clear();
    else if (this.#names.size > 0) names.forEach((name) => this.#names.add(name));
    if (this.#status === "open") this.#sendSubscription();
  }

  // Over HTTP --------------------------------------------------------------------------------------

  /** Make it, unless it is there. */
  getOrCreate(input = null) {
    return this.#request("PUT", "", { input });
  }

  /** Status, state, error and what it waits for, as they are committed now. */
  show() {
    return this.#request("GET", "");
  }

  /** The roots of the history, each entry with its children. */
  async history() {
    return (await this.#request("GET", "history/?tree=true")).results;
  }

  /** Run an action, and return its result. A call that is told to have failed has left no trace. */
  async call(action, args = [], kwargs = {}) {
    return (await this.#request("POST", `actions/${encodeURIComponent(action)}/`, { args, kwargs })).output;
  }

  /** Store a message. Where no answer comes it is sent again under the same key, so it is stored once. */
  async send(queue, body, { idempotencyKey = newKey(), attempts = 3 } = {}) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const path = `queues/${encodeURIComponent(queue)}/`;
        return await this.#request("POST", path, { body }, { "Idempotency-Key": idempotencyKey });
      } catch (error) {
        if (error instanceof RivetError || attempt >= attempts) throw error;
        await pause(500 * attempt);
      }
    }
  }

  // Below: how it is done --------------------------------------------------------------------------

  async #request(method, path, body, headers = {}) {
    const sent = { Accept: "application/json", ...headers };
    if (body !== undefined) {
      sent["Content-Type"] = "application/json";
      sent["X-CSRFToken"] = this.#csrfToken();
    }
    const response = await fetch(this.#address + path, {
      method,
      headers: sent,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
    const text = await response.text();
    const answer = parsed(text);
    if (!response.ok) throw new RivetError(response.status, answer);
    return answer;
  }

  #open() {
    clearTimeout(this.#timer);
    this.#drop();
    this.#setStatus("connecting");
    const socket = new WebSocket(this.#socketAddress);
    this.#socket = socket;
    this.#hasSubscribed = false;
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    socket.onclose = ({ code }) => {
      this.#socket = null;
      if (FINAL_CODES.has(code)) this.#refused();
      else this.#wait();
    };
  }

  /** Forget the connection at once: one that leads nowhere takes a minute to say that it is closed. */
  #drop() {
    const socket = this.#socket;
    if (socket === null) return;
    socket.onmessage = socket.onclose = null;
    socket.close();
    this.#socket = null;
  }

  #wait() {
    const longest = Math.min(this.#pauses.longest, this.#pauses.first * 2 ** this.#failures);
    this.#failures += 1;
    // Not all of a server's clients in the same moment.
    const milliseconds = longest * (0.5 + Math.random() / 2);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#open(), milliseconds);
    this.#setStatus("waiting", milliseconds / 1000);
  }

  #refused() {
    this.#isWanted = false;
    this.#setStatus("refused");
  }

  #comeBack = () => {
    if (this.#isWanted && this.#status === "waiting") {
      this.#failures = 0;
      this.#open();
    }
  };

  #leave = () => {
    if (this.#isWanted && this.#socket !== null) {
      this.#drop();
      this.#wait();
    }
  };

  #receive(frame) {
    if (frame.type === "init") this.#begin(frame.seq);
    else if (frame.type === "event") this.#hear(frame);
    else if (frame.type === "gap") this.#miss(frame);
    else if (frame.type === "error") this.#tell("refusal", { code: frame.code, message: frame.message });
  }

  #begin(seq) {
    this.#failures = 0;
    const isReplaced = this.#seq !== null && seq < this.#seq;
    if (isReplaced) this.#seq = 0; // none of this actor's events were seen
    this.#seq ??= seq;
    this.#setStatus("open");
    if (this.#names !== null) this.#sendSubscription();
    // Subscribed first, read then: what happens in between is told, and what was before is read.
    this.#tell("stale", { reason: isReplaced ? "replaced" : "connected" });
  }

  #sendSubscription() {
    const frame = { type: "subscribe" };
    if (this.#names.size > 0) frame.events = [...this.#names];
    if (!this.#hasSubscribed) frame.since = this.#seq;
    this.#hasSubscribed = true;
    this.#socket.send(JSON.stringify(frame));
  }

  #hear({ name, payload, seq }) {
    if (seq !== undefined) {
      if (seq <= this.#seq) return;
      this.#seq = seq;
    }
    this.#tell("event", { name, payload, seq });
  }

  #miss({ from, to }) {
    if (to <= this.#seq) return;
    this.#seq = to;
    this.#tell("stale", { reason: "gap", from, to });
  }

  #setStatus(status, seconds = 0) {
    this.#status = status;
    this.#tell("status", { status, seconds });
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

/** The server has said no: `status` of HTTP, `code` for programs, `message` for people, `metadata`. */
export class RivetError extends Error {
  constructor(status, answer) {
    super(answer?.message ?? answer?.detail ?? `the server answered ${status}`);
    this.name = "RivetError";
    this.status = status;
    this.code = answer?.code ?? "unknown";
    this.metadata = answer?.metadata ?? {};
  }
}

/** Not logged in, may not, or there is no such actor: asking again would change nothing. */
const FINAL_CODES = new Set([4401, 4403, 4404]);

/** The parts of a key as one segment of an address; see the reference of the HTTP routes. */
export function keyInAddress(key) {
  const [first, ...others] = [key].flat().map((part) => part.replaceAll("~", "~0"));
  return first + others.map((part) => (part.startsWith("0") ? "~~~" : "~") + part).join("");
}

/** A key that nobody else has; `crypto.randomUUID` is not there on plain HTTP. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function csrfCookie() {
  return decodeURIComponent(document.cookie.match(/(?:^|; )csrftoken=([^;]*)/)?.[1] ?? "");
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
