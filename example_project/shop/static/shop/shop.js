/** The shop's page: buttons that buy, and what becomes of it. */

import { csrfCookie, newKey, RivetActor, RivetError } from "./rivet.js";
import { isAtRest, OrderList, ordersOf, queuedOrder, verdictOf } from "./orders.js";

const SHOWN_EVENTS = 1000;
const UNDER_WAY_MS = 700;
const BREATH_MS = 100; // between two readings, however fast events come

const shop = document.getElementById("shop");
const checkout = new RivetActor(shop.dataset.actor, shop.dataset.key, { api: shop.dataset.api });
const list = new OrderList(document.getElementById("orders"));
const queued = new Map(); // bought here, and not yet taken by the checkout
const notes = new Map();
let isReading = false;
let isStale = false;
let nextLook = 0;

// What is shown ------------------------------------------------------------------------------------

/** Read history and books, one reading at a time; what changes meanwhile is read after it. */
async function look() {
  isStale = true;
  if (isReading) return;
  isReading = true;
  clearTimeout(nextLook);
  try {
    while (isStale) {
      isStale = false;
      await Promise.all([showOrders(), showBooks()]);
      if (isStale) await new Promise((resolve) => setTimeout(resolve, BREATH_MS));
    }
  } catch (error) {
    if (isLoggedOut(error)) location.reload();
    else if (checkout.status === "open") nextLook = setTimeout(look, 3000);
  } finally {
    isReading = false;
  }
}

async function showOrders() {
  const [shown, roots] = await Promise.all([checkout.show(), checkout.history()]);
  const orders = ordersOf(roots);
  orders.forEach((order) => queued.delete(order.id));
  const all = [...orders, ...queued.values()].map((order) => ({ ...order, note: notes.get(order.id) ?? "" }));
  const moved = list.show(all);
  document.getElementById("no-orders").hidden = all.length > 0;
  showCheckout(shown);
  const last = moved.at(-1);
  if (last !== undefined) say(`${last.id}: ${verdictOf(last)}`);
  // An outside call that begins, or a worker that takes over, has no commit for the actor's events to ride with.
  clearTimeout(nextLook);
  if (!all.every(isAtRest) && checkout.status === "open") nextLook = setTimeout(look, UNDER_WAY_MS);
}

function showCheckout(shown) {
  const line = document.getElementById("checkout");
  const isWell = ["sleeping", "running", "pending"].includes(shown.status);
  line.hidden = isWell;
  line.textContent = isWell ? "" : `The checkout is ${shown.status}: ${shown.error?.message ?? "see the admin"}.`;
}

async function showBooks() {
  const response = await fetch(shop.dataset.books, { credentials: "same-origin", cache: "no-store" });
  if (response.redirected || !response.ok) throw new RivetError(response.redirected ? 401 : response.status, null);
  const books = new DOMParser().parseFromString(await response.text(), "text/html");
  document.getElementById("books").replaceChildren(...books.body.children);
}

function showEvent({ name, payload, seq }) {
  const line = document.createElement("li");
  if (seq !== undefined) line.dataset.seq = seq;
  const number = document.createElement("b");
  number.textContent = seq === undefined ? "-" : `#${seq}`;
  line.append(number, ` ${name} `, wordsOf(payload));
  const events = document.getElementById("events");
  events.prepend(line);
  while (events.childElementCount > SHOWN_EVENTS) events.lastElementChild.remove();
}

function wordsOf(payload) {
  const words = document.createElement("span");
  words.textContent =
    payload?.error !== undefined
      ? `${payload.step_name ?? ""} attempt ${payload.attempt ?? "-"}: ${payload.error.message}`
      : Object.values(payload ?? {}).join(" ");
  return words;
}

function showConnection({ status, seconds }) {
  const line = document.getElementById("connection");
  line.dataset.status = status;
  line.textContent = {
    connecting: "connecting",
    open: "live",
    waiting: `connection lost, next try in ${Math.max(1, Math.round(seconds))} s`,
    refused: "not let in: log in again",
    closed: "not connected",
  }[status];
}

function say(words) {
  document.getElementById("news").textContent = words;
}

// What is done -------------------------------------------------------------------------------------

async function buy(button) {
  const id = `order-${newKey().slice(0, 6)}`;
  const { card } = button.dataset;
  button.disabled = true;
  try {
    queued.set(id, queuedOrder(id, card));
    await checkout.send("orders", { id, card });
    say(`${id} was ordered`);
    void look();
    if (button.dataset.pullsPlug !== undefined) await pullThePlug(id);
  } catch (error) {
    queued.delete(id);
    say(`${id}: ${error.message}`);
  } finally {
    button.disabled = false;
    button.focus({ preventScroll: true });
  }
}

async function pullThePlug(id) {
  const response = await fetch(shop.dataset.plug, {
    method: "POST",
    headers: { "X-CSRFToken": csrfCookie() },
    body: new URLSearchParams({ order: id }),
    credentials: "same-origin",
  });
  const answer = await response.json();
  if (!response.ok) throw new RivetError(response.status, answer);
  notes.set(
    id,
    answer.killed === null
      ? "It was charged before anybody could pull the plug."
      : `Its worker (process ${answer.killed}) was killed with SIGKILL while it charged. A new one is started, and takes the order over when the lease of the dead one has run out.`,
  );
  say(notes.get(id));
  void look();
}

function isLoggedOut(error) {
  return error instanceof RivetError && [401, 403].includes(error.status);
}

// From here on -------------------------------------------------------------------------------------

async function begin() {
  try {
    await checkout.getOrCreate(); // nobody can follow an actor that is not there yet
  } catch (error) {
    say(error.message);
  }
  checkout.subscribe();
  checkout.connect();
}

checkout.addEventListener("status", ({ detail }) => showConnection(detail));
checkout.addEventListener("stale", look);
checkout.addEventListener("event", ({ detail }) => {
  showEvent(detail);
  void look();
});
checkout.addEventListener("refusal", ({ detail }) => say(detail.message));
for (const button of shop.querySelectorAll("button")) button.addEventListener("click", () => buy(button));
void begin();
