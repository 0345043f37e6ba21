/* Keeps the part of a page that moves up to date while somebody looks: what has changed is changed where it
   stands, so focus, selection, scrolling and what was unfolded stay. Without this the page is still whole. */

const FACTOR = 2;
const LONGEST_PAUSE = 30;

const unfolded = new WeakSet();
const watch = document.getElementById("rivet-watch");
const [word, button] = watch.children;
let isStopped = false;
let failures = 0;
let timer = null;

const now = () => document.getElementById("rivet-now");

function say(name) {
    const text = watch.dataset[name];
    if (word.textContent !== text) {
        word.textContent = text;
    }
    watch.dataset.state = name;
    button.hidden = name === "over" || name === "gone";
    button.textContent = isStopped ? watch.dataset.goOn : watch.dataset.stop;
}

function lookAgainLater() {
    clearTimeout(timer);
    const seconds = Number(now().dataset.seconds);
    if (!seconds) {
        say("over");
    } else if (isStopped) {
        say("stopped");
    } else {
        say(failures ? "lost" : "live");
        timer = setTimeout(look, 1000 * Math.min(seconds * FACTOR ** failures, LONGEST_PAUSE));
    }
}

async function look() {
    if (document.hidden) {
        return;
    }
    try {
        const answer = await fetch(location.href, { headers: { "X-Rivet-Live": "1" }, redirect: "manual" });
        if (answer.type === "opaqueredirect" || [401, 403, 404].includes(answer.status)) {
            say("gone");
            return;
        }
        if (!answer.ok) {
            throw new Error(answer.statusText);
        }
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        if (!isStopped) {
            patch(now(), page.getElementById("rivet-now"));
        }
        failures = 0;
    } catch {
        failures += 1;
    }
    lookAgainLater();
}

/* One node becomes like another. Elements with the same id stay the same element. */
function patch(old, next) {
    if (old.nodeType === Node.TEXT_NODE) {
        if (old.data !== next.data) {
            old.data = next.data;
        }
        return;
    }
    if (old.isEqualNode(next)) {
        return;
    }
    patchAttributes(old, next);
    let place = old.firstChild;
    for (const wanted of [...next.childNodes]) {
        const known = wanted.id && old.querySelector(`:scope > [id="${CSS.escape(wanted.id)}"]`);
        if (known && known !== place && isAhead(place, known)) {
            // What stood before it is gone, or comes later.
            while (place !== known) {
                const gone = place;
                place = place.nextSibling;
                gone.remove();
            }
        }
        if (place && isAlike(place, wanted)) {
            patch(place, wanted);
            place = place.nextSibling;
        } else {
            old.insertBefore(document.importNode(wanted, true), place);
        }
    }
    while (place) {
        const gone = place;
        place = place.nextSibling;
        gone.remove();
    }
}

function isAhead(place, known) {
    return Boolean(place) && Boolean(place.compareDocumentPosition(known) & Node.DOCUMENT_POSITION_FOLLOWING);
}

function isAlike(one, other) {
    return one.nodeName === other.nodeName && (one.id || "") === (other.id || "");
}

function patchAttributes(old, next) {
    for (const name of [...old.getAttributeNames(), ...next.getAttributeNames()]) {
        if (name === "open" && unfolded.has(old)) {
            continue;
        }
        const value = next.getAttribute(name);
        if (value === null) {
            old.removeAttribute(name);
        } else if (old.getAttribute(name) !== value) {
            old.setAttribute(name, value);
        }
    }
}

// What a person has folded or unfolded is theirs. The keyboard's Enter is a click as well.
document.addEventListener("click", ({ target }) => {
    const summary = target.closest("summary");
    if (summary) {
        unfolded.add(summary.parentElement);
    }
});

button.addEventListener("click", () => {
    isStopped = !isStopped;
    failures = 0;
    if (isStopped) {
        lookAgainLater();
    } else {
        look();
    }
});

document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden && !isStopped && now().dataset.seconds) {
        failures = 0;
        look();
    }
});

watch.hidden = false;
lookAgainLater();
