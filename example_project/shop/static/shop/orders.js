/** A checkout's history as orders, and each order as a card: its steps downwards, what undoes them upwards. */

const PLAN = ["reserve", "charge", "confirm"];
const UNDOES = { reserve: "release", charge: "refund" };
const CARDS = { valid: "good card", declined: "declined card", slow: "slow gateway" };
const SHOWN = 12;

const VERDICTS = {
  queued: "queued",
  running: "under way",
  undoing: "is undone",
  stuck: "undoing failed",
  undone: "undone",
  rejected: "rejected, all undone",
  confirmed: "confirmed",
};

const WORDS = {
  missing: "not reached",
  pending: "waits",
  running: "under way",
  retrying: "tried again soon",
  completed: "done",
  failed: "failed",
  placeholder: "undone",
};

const UNDO_WORDS = {
  owed: "still to do",
  completed: "done",
  failed: "failed",
  skipped: "skipped by hand",
  confirmed: "done by hand",
};

/** The orders that a history tells of, oldest first. */
export function ordersOf(roots) {
  const turns = roots.filter((entry) => entry.kind === "loop").flatMap((loop) => loop.children);
  return turns.flatMap((turn) => {
    const message = turn.children.find((entry) => entry.kind === "message");
    const body = (message?.output ?? [])[0]?.body;
    return body?.id === undefined ? [] : [orderOf(body, turn.children)];
  });
}

export function queuedOrder(id, card) {
  return orderOf({ id, card }, []);
}

export function isAtRest(order) {
  return ["confirmed", "rejected", "stuck"].includes(order.verdict);
}

export function verdictOf(order) {
  return VERDICTS[order.verdict];
}

/** A list of cards, newest first; only those are touched whose order has moved. */
export class OrderList {
  #list;
  #cards = new Map();

  constructor(list) {
    this.#list = list;
  }

  /** Returns the orders that stand otherwise than before. */
  show(orders) {
    const moved = [];
    for (const order of orders) {
      let card = this.#cards.get(order.id);
      if (card === undefined) {
        card = { element: document.createElement("li"), text: "", verdict: "" };
        card.element.className = "card order";
        card.element.dataset.order = order.id;
        this.#cards.set(order.id, card);
        this.#list.prepend(card.element);
      }
      const text = JSON.stringify(order);
      if (text === card.text) continue;
      if (order.verdict !== card.verdict) moved.push(order);
      Object.assign(card, { text, verdict: order.verdict });
      fill(card.element, order);
    }
    while (this.#list.childElementCount > SHOWN) this.#list.lastElementChild.remove();
    return moved;
  }
}

// Below: how it is done ----------------------------------------------------------------------------

function orderOf(body, entries) {
  const block = entries.find((entry) => entry.kind === "block");
  const isFailed = ["rolling_back", "failed"].includes(block?.status);
  const found = new Map((block?.children ?? []).filter((e) => e.kind === "step").map((e) => [nameOf(e), e]));
  const steps = [...new Set([...PLAN, ...found.keys()])].map((name) => stepOf(name, found.get(name), isFailed));
  const undos = steps.filter((step) => step.undo !== null);
  undos.forEach((step, index) => (step.undo.place = undos.length - index)); // newest first
  const reject = entries.find((entry) => entry.kind === "step" && nameOf(entry) === "reject");
  const verdict = verdictFor(block, reject, undos);
  return { id: String(body.id), card: String(body.card ?? "valid"), note: body.note ?? "", verdict, steps };
}

function verdictFor(block, reject, undos) {
  if (block === undefined) return "queued";
  if (block.status === "completed") return "confirmed";
  if (reject?.status === "completed") return "rejected";
  if (undos.some((step) => step.undo.status === "failed")) return "stuck";
  if (block.status === "rolling_back") return "undoing";
  return block.status === "failed" ? "undone" : "running";
}

function stepOf(name, entry, isFailed) {
  const step = { name, status: entry?.status ?? "missing", attempts: entry?.attempts ?? 0, seconds: null, error: "" };
  step.undo = null;
  if (entry === undefined) return step;
  if (entry.ended_at) step.seconds = (Date.parse(entry.ended_at) - Date.parse(entry.started_at)) / 1000;
  if (entry.error) step.error = `${entry.error.name}: ${entry.error.message}`;
  const rollback = entry.rollback;
  if (rollback && rollback.status !== "settled" && (isFailed || rollback.status !== "owed")) {
    step.undo = { name: UNDOES[name] ?? `undo ${name}`, status: rollback.status, attempts: rollback.attempts };
  }
  return step;
}

function nameOf(entry) {
  return entry.path.slice(entry.path.lastIndexOf("/") + 1);
}

function fill(card, order) {
  card.dataset.verdict = order.verdict;
  const head = make("div", "head");
  head.append(make("h3", "", order.id), make("span", "with", CARDS[order.card] ?? `card ${order.card}`));
  head.append(make("strong", "verdict", verdictOf(order)));
  const table = make("table", "saga");
  const isUndone = order.steps.some((step) => step.undo !== null);
  table.classList.toggle("undone", isUndone);
  table.append(make("caption", "unseen", `${order.id}: its steps from first to last, and what undoes them`));
  table.append(headRow(isUndone), ...order.steps.map((step) => row(step, isUndone)));
  const errors = order.steps.filter((step) => step.error).map((step) => make("p", "error", step.error));
  const note = order.note ? [make("p", "note", order.note)] : [];
  card.replaceChildren(head, table, ...errors, ...note);
}

function headRow(isUndone) {
  const row = make("tr", "unseen");
  for (const text of isUndone ? ["step", "is undone by"] : ["step"]) {
    const cell = make("th", "", text);
    cell.scope = "col";
    row.append(cell);
  }
  return row;
}

function row(step, isUndone) {
  const row = document.createElement("tr");
  row.dataset.step = step.name;
  const done = make("th", `done ${step.status}`);
  done.classList.toggle("taken-back", ["completed", "confirmed"].includes(step.undo?.status));
  done.scope = "row";
  const line = make("div", "line");
  line.append(make("b", "", step.name), make("span", "how", details(step)));
  if (step.undo) line.append(arrow());
  done.append(line);
  row.append(done);
  if (!isUndone) return row;
  const undo = make("td", step.undo ? `undo ${step.undo.status}` : "undo none");
  if (step.undo) {
    const times = step.undo.attempts > 1 ? `, ${step.undo.attempts} attempts` : "";
    const how = `${step.undo.place}. ${UNDO_WORDS[step.undo.status] ?? step.undo.status}${times}`;
    const line = make("div", "line");
    line.append(make("b", "", step.undo.name), make("span", "how", how));
    undo.append(line);
  }
  row.append(undo);
  return row;
}

function details(step) {
  const words = [WORDS[step.status] ?? step.status];
  if (step.attempts > 1) words.push(`${step.attempts} attempts`);
  if (step.status === "completed" && step.seconds !== null) words.push(duration(step.seconds));
  return words.join(", ");
}

function duration(seconds) {
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
}

/** From what undoes a step to that step; the style sheet draws it as long as there is room. */
function arrow() {
  const line = make("span", "arrow");
  line.setAttribute("aria-hidden", "true");
  return line;
}

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}
