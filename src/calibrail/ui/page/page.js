// What does an annotator see and do, from the first answer to the last?

import { Chunks } from "./chunks.js";
import { Marking } from "./marking.js";
import { $, plural, rest } from "./rest.js";
import { ask, Refused } from "./server.js";
import { shown, TextView } from "./text.js";

const NAMES = new Map([[0, "faithful"], [1, "hallucinated"], [null, "unsure"]]);
const LABEL_KEYS = new Map([["f", 0], ["h", 1], ["u", null]]);

const question = new TextView($("question"));
const response = new TextView($("response"));
const chunks = new Chunks($("chunks"), $("rail"), ["answer-box", "rail-box"].map($));
const marking = new Marking(response, marked);

// A phone has no keys.
const UNDO = matchMedia("(pointer: coarse)").matches ? "Undo" : "Undo (z)";
const TWICE = 150; // Milliseconds.
const HASTY = "A key that came too fast did nothing: press it again.";

let task = null; // The answer on screen.
let busy = false; // A key meant for this answer must not label the next one.
let pressed = 0; // When the last label was given.
let looking = false; // The nearest chunk is being looked for; labels need not wait for that.
let choice; // A label that waits for Enter; undefined without one.
let gone = false; // Nobody answered the last time.
let hasty = false; // A key came before the next answer did.
let goesOn = false; // Labelling goes on although the data has decided.
let evidence = null; // Sentences of the answer, once asked for, and which is looked at.
const sent = new Map(); // What this tab said of an answer, for undo.

const kept = (name) => localStorage.getItem(`calibrail-${name}`) === "yes";
const keep = (name, on) => localStorage.setItem(`calibrail-${name}`, on ? "yes" : "no");

const say = (text) => { $("status").textContent = text; };

function banner(text) {
  $("banner").textContent = text;
  $("banner").hidden = !text;
}

/** Do one thing with the server at a time; what goes wrong stands above the answer, which stays. */
async function doing(work) {
  if (busy) {
    hasty = true;
    return;
  }
  busy = true;
  const slow = setTimeout(() => document.body.classList.add("waits"), 250);
  try {
    const result = await work();
    gone = false;
    if (result) banner("");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    gone = error.gone;
    banner(error.message);
    if (!task && document.body.dataset.view === "loading") view("refused");
  } finally {
    clearTimeout(slow);
    document.body.classList.remove("waits");
    busy = false;
  }
}

const view = (name) => { document.body.dataset.view = name; };

function showCounts(counts, name) {
  const parts = [name, `${counts.by_you.toLocaleString("en")} labelled`];
  const { needed, found, total, disagreements } = counts;
  const settled = counts.drawn - counts.waiting;
  if (needed) parts.push(`hallucinated: ${found} (goal: ${needed})`);
  if (needed && found >= needed && !counts.decided && !counts.holding) parts.push("faithful ones missing");
  // Once labels are enough, nothing is to go, whatever could still be drawn.
  if (counts.decided) parts.push("enough");
  else if (!needed && total > settled) parts.push(`at most ${plural(total - settled, "answer")} to go`);
  if (counts.to_expect && !counts.decided) parts.push(`about ${plural(counts.to_expect, "label")} to go`);
  if (counts.skipped) parts.push(`${counts.skipped} skipped`);
  // Answers count in the order they were drawn, up to the first that is open.
  if (counts.holding) {
    parts.push(`${plural(counts.holding, "label")} on hold until ` + (disagreements
      ? `${plural(disagreements, "disagreement is", "disagreements are")} settled`
      : "an earlier answer is labelled"));
  }
  $("progress").textContent = parts.join(" · ");
  $("bar").hidden = !(needed ?? total);
  $("bar").max = needed ?? total ?? 1;
  $("bar").value = counts.decided ? $("bar").max : needed ? found : settled;
}

/** Show what the server answered: the next answer, or that there is none. */
function show(state, said = "") {
  const { counts } = state;
  showCounts(counts, shown(state.annotator).slice(0, 24));
  $("progress").title = `Labelling as ${shown(state.annotator)}`;
  $("unsure-means").textContent = state.unsure;
  const decided = counts.decided && !goesOn && !state.undone;
  if (!state.task || decided || state.stopped) {
    task = null;
    rest(state, decided);
    view(state.stopped ? "stopped" : "rest");
    $("rest-title").focus();
    return;
  }
  const same = task?.order === state.task.order;
  task = state.task;
  if (!same || state.undone) draw(state);
  view("task");
  say(hasty ? `${said} ${HASTY}`.trim() : said);
  hasty = false;
  if (!same) {
    scrollTo(0, 0);
    $("question-title").focus({ preventScroll: true });
  }
}

function draw(state) {
  const before = state.undone ? sent.get(task.order) : undefined;
  choice = before?.label;
  evidence = null;
  question.set(task.question || "(no question)");
  response.set(task.response);
  $("response").scrollTop = 0;
  $("why").hidden = !task.why;
  $("why").textContent = task.why;
  $("answer-note").textContent = `No. ${task.order.toLocaleString("en")}`;
  chunks.set(task.contexts);
  $("evidence").disabled = !task.contexts.length;
  $("note").value = before?.note ?? "";
  $("note").hidden = !before?.note;
  marking.reset(before?.marks ?? []);
  marked("");
  choose(choice);
  requestAnimationFrame(goesOnBelow);
}

function choose(label) {
  choice = label;
  for (const button of document.querySelectorAll("[data-label]")) {
    button.setAttribute("aria-pressed", String(JSON.parse(button.dataset.label) === label));
  }
  $("next").hidden = label === undefined;
}

/** Say a label: it goes to the server at once, or with Enter for those who want to look again. */
function label(value) {
  // Who presses twice did not read the next answer.
  if (!task) return;
  if (busy || performance.now() - pressed < TWICE) {
    hasty = busy;
    say(HASTY);
    return;
  }
  if (value === 0 && marking.marks.length) {
    say("Words are marked that nothing supports. Clear the marks, or say hallucinated.");
    return;
  }
  pressed = performance.now();
  if (kept("wait")) {
    choose(value);
    say(`${NAMES.get(value)}: Enter saves it`);
  } else send(value);
}

function send(value) {
  doing(async () => {
    const { order } = task;
    const marks = marking.marks.map((mark) => [...mark]);
    const note = $("note").value.trim();
    const before = choice;
    choose(value);
    let state;
    try {
      state = await ask("label", { order, label: value, spans: marks, note });
    } catch (error) {
      choose(before);
      say("Not saved.");
      throw error;
    }
    sent.set(order, { label: value, marks, note });
    if (state.stale) stale(state);
    else show(state, `No. ${order} saved as ${NAMES.get(value)}. ${UNDO} takes it back.`);
    return !state.stale;
  });
}

function stale(state) {
  task = null;
  show(state);
  banner(
    "This answer was done elsewhere, in another tab or terminal; what was said there stands. Here " +
    "is the next one.");
}

function skip() {
  if (!task) return;
  doing(async () => {
    const state = await ask("skip", { order: task.order });
    if (state.stale) stale(state);
    else show(state, `Skipped. It comes back later, or with ${UNDO} now.`);
    return !state.stale;
  });
}

/** Take the last label back, or that of one answer. */
function undo(order) {
  doing(async () => {
    const state = await ask("undo", { order });
    if (state.nothing_to_undo) {
      say("There is nothing to undo.");
      return true;
    }
    task = null;
    show(state, "The label is taken back; this answer is open again.");
    return true;
  });
}

function stop() {
  doing(async () => {
    show(await ask("stop", {}));
    return true;
  });
}

/** Show the next sentence of the answer, and the part of the chunks that is nearest to it. */
async function nearest(step) {
  if (!task?.contexts.length || looking) return;
  looking = true;
  try {
    const { order } = task;
    if (!evidence) {
      const { sentences } = await ask("sentences", { order });
      if (task?.order !== order) return;
      if (!sentences.length) {
        say("The answer has no sentence.");
        return;
      }
      evidence = { sentences, at: step > 0 ? -1 : 0 };
    }
    const { length } = evidence.sentences;
    await look((evidence.at + step + length) % length);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    banner(error.message);
  } finally {
    looking = false;
  }
}

async function look(sentence) {
  const { order } = task;
  const { quote } = await ask("nearest", { order, sentence });
  if (task?.order !== order) return;
  evidence.at = sentence;
  decorate();
  const [start] = evidence.sentences[sentence];
  response.at(start).scrollIntoView({ block: "nearest" });
  chunks.quote(quote);
  const where = quote ? `nearest is chunk ${quote.chunk + 1}` : "no chunk shares a word with it";
  say(`Sentence ${sentence + 1} of ${evidence.sentences.length}: ${where}.`);
}

function decorate() {
  const at = evidence?.sentences[evidence.at];
  const looked = at ? [[...at, "sentence"]] : [];
  response.decorate([...looked, ...marking.places()]);
}

/** Show that a text goes on below, where its box ends. */
function goesOnBelow() {
  for (const name of ["question", "response"]) {
    const box = $(name);
    box.classList.toggle("more", box.scrollHeight - box.scrollTop - box.clientHeight > 6);
  }
  $("more").hidden = !$("response").classList.contains("more");
}

/** Show the marks of the answer after a change of them. */
function marked(said) {
  decorate();
  const n = marking.marks.length;
  if (marking.active) {
    $("mark-hint").textContent = matchMedia("(pointer: coarse)").matches
      ? "Tap the words that nothing supports; a tap clears them again."
      : "← → words, with Shift more, ↑ ↓ sentences, Space marks, Esc ends";
    response.at(marking.chosen()[0]).scrollIntoView({ block: "nearest" });
  } else {
    $("mark-hint").textContent = n ? `${plural(n, "marked place")}; a click clears one.` : "";
  }
  $("mark").setAttribute("aria-pressed", String(marking.active));
  document.body.classList.toggle("marking", marking.active);
  if (said) say(said.slice(0, 160));
}

function goOn() {
  goesOn = true;
  doing(async () => {
    show(await ask("state"));
    return true;
  });
}

/** List the labels of this annotator; who presses one gets its answer back. */
function mine() {
  doing(async () => {
    const labels = await ask("mine");
    $("mine-note").textContent = labels.length ? "Press one to change it." : "There are none so far.";
    $("mine-list").replaceChildren(...labels.map((item) => {
      const row = document.createElement("button");
      const [name, text, note] = ["b", "span", "i"].map((kind) => document.createElement(kind));
      row.className = "plain";
      name.className = name.textContent = NAMES.get(item.label);
      text.textContent = `No. ${item.order} · ${shown(item.question || item.response).slice(0, 120)}`;
      note.textContent = shown(item.note);
      row.append(name, text, note);
      row.addEventListener("click", () => {
        $("mine").close();
        sent.set(item.order, item);
        undo(item.order);
      });
      return row;
    }));
    $("mine").showModal();
  });
}

function write() {
  $("note").hidden = false;
  $("note").focus();
}

function help() {
  $("wait").checked = kept("wait");
  $("letters").checked = localStorage.getItem("calibrail-letters") !== "no";
  $("help").showModal();
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) {
    // A key held down moves the cursor, and labels nothing.
    if (!(event.repeat && event.key.startsWith("Arrow"))) return;
  }
  if (event.target === $("note")) {
    if (event.key === "Enter" || event.key === "Escape") $("note").blur();
    return;
  }
  if (document.querySelector("dialog[open]")) {
    if (event.key === "?") $("help").close();
    return;
  }
  const letter = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (marking.active && marking.key(event)) return event.preventDefault();
  if (letter === "?") return help();
  if (letter === "Enter" && event.target.closest("button, a")) return;
  if (localStorage.getItem("calibrail-letters") === "no" && letter !== "Enter") return;
  const resting = document.body.dataset.view !== "task";
  if (letter === "z" && document.body.dataset.view !== "stopped") undo();
  else if (letter === "l" && document.body.dataset.view !== "stopped") mine();
  else if (resting) {
    if ((letter === "Enter" || letter === "n") && !$("rest-go").hidden) goOn();
  } else if (LABEL_KEYS.has(letter)) label(LABEL_KEYS.get(letter));
  else if (letter === "s") skip();
  else if (letter === "n" || letter === "Enter") next();
  else if (letter === "m") marking.begin();
  else if (letter === "w") write();
  else if (letter === "e") nearest(event.shiftKey ? -1 : 1);
  else if (letter === "j") chunks.jump(Math.min(chunks.now + 1, chunks.items.length - 1));
  else if (letter === "k") chunks.jump(Math.max(chunks.now - 1, 0));
  else if (letter === "a") $("response").focus();
  else if (/^\d$/.test(letter)) chunks.digit(letter);
  else return;
  event.preventDefault();
}

function next() {
  if (choice === undefined && gone) say("Nothing is saved of this answer: calibrail does not answer.");
  else if (choice === undefined) say("Say first what it is: f faithful, h hallucinated, u unsure.");
  else if (task) send(choice);
}

document.addEventListener("keydown", key);
// What changes sizes waits until they are settled.
const boxes = new ResizeObserver(() => requestAnimationFrame(goesOnBelow));
for (const name of ["question", "response"]) {
  $(name).addEventListener("scroll", goesOnBelow, { passive: true });
  boxes.observe($(name));
}
$("more").addEventListener("click", () => {
  $("response").scrollBy({ top: $("response").clientHeight * 0.8 });
});
for (const button of document.querySelectorAll("[data-label]")) {
  button.addEventListener("click", () => label(JSON.parse(button.dataset.label)));
}
for (const [id, act] of [
  ["skip", skip], ["next", next], ["undo", () => undo()], ["stop", stop], ["rest-stop", stop],
  ["rest-go", goOn], ["help-open", help], ["mine-open", mine], ["write", write], ["evidence", () => nearest(1)],
  ["mark", () => (marking.active ? marking.end() : marking.begin())],
]) $(id).addEventListener("click", act);
// The button must not take the selection away that it is to mark.
$("mark").addEventListener("pointerdown", (event) => event.preventDefault());
$("wait").addEventListener("change", (event) => keep("wait", event.target.checked));
$("letters").addEventListener("change", (event) => keep("letters", event.target.checked));
document.addEventListener("selectionchange", () => {
  $("mark").classList.toggle("ready", marking.notice());
});
$("response").addEventListener("click", (event) => {
  if (!getSelection().isCollapsed || !(event.target instanceof Element)) return;
  const place = response.placeUnder(event.clientX, event.clientY);
  if (event.target.closest("mark") && place !== null) {
    if (marking.removeAt(place) || marking.removeAt(place - 1)) return;
  }
  if (marking.active && place !== null) {
    marking.add(place, place + 1);
    return;
  }
  if (evidence && place !== null) {
    const sentence = evidence.sentences.findIndex(([start, end]) => start <= place && place < end);
    if (sentence >= 0) nearest(sentence - evidence.at);
  }
});

doing(async () => {
  show(await ask("state"));
  return true;
});
