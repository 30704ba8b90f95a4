// How are the words of an answer marked that nothing supports?

// A tap on a button may take a selection away before the button hears of it, in milliseconds.
const JUST_NOW = 600;

/** Return places in order, without overlap; with nothing but spaces between them they are one. */
function merged(places, text) {
  const sorted = [...places].sort((a, b) => a[0] - b[0]);
  const kept = [];
  for (const [start, end] of sorted) {
    const last = kept.at(-1);
    if (last && /^ *$/.test(text.slice(last[1], start))) last[1] = Math.max(last[1], end);
    else kept.push([start, end]);
  }
  return kept;
}

/** Marks of one text, made by pointer or by keys. */
export class Marking {
  constructor(view, changed) {
    this.view = view;
    this.changed = changed;
    this.reset([]);
  }

  reset(marks) {
    this.marks = merged(marks, this.view.text);
    this.selected = null; // What was selected last, and when.
    this.word = null; // Where the cursor is, while marking by keys.
    this.anchor = null; // Where the words begun with Shift start.
  }

  get active() {
    return this.word !== null;
  }

  /** Return the places to show. */
  places() {
    const places = this.marks.map(([start, end]) => [start, end, "unsupported"]);
    if (this.active) places.push([...this.chosen(), "cursor"]);
    return places;
  }

  chosen() {
    const other = this.anchor ?? this.word;
    return [Math.min(other[0], this.word[0]), Math.max(other[1], this.word[1])];
  }

  words(place) {
    return this.view.text.slice(...place);
  }

  /** Mark a place, grown to whole words, or say that there are none. */
  add(start, end) {
    const whole = this.view.whole(start, end);
    if (!whole) return this.changed("There are no words to mark.");
    this.marks = merged([...this.marks, whole], this.view.text);
    return this.changed(`Marked: ${this.words(whole)}`);
  }

  removeAt(place) {
    const gone = this.marks.find(([start, end]) => start <= place && place < end);
    if (!gone) return false;
    this.marks = this.marks.filter((mark) => mark !== gone);
    this.changed(`No longer marked: ${this.words(gone)}`);
    return true;
  }

  /** Mark what is selected; without a selection begin by keys. */
  begin() {
    const recent = this.selected && performance.now() - this.selected.when < JUST_NOW;
    const selected = this.selection() ?? (recent ? this.selected.place : null);
    this.selected = null;
    if (selected) {
      getSelection().removeAllRanges();
      return this.add(...selected);
    }
    const [first] = this.view.words(this.marks.at(-1)?.[0] ?? 0);
    if (!first) return this.changed("There are no words to mark.");
    const last = this.marks.at(-1);
    this.word = last ? this.beside(last[1], 1) ?? first : first;
    this.anchor = null;
    return this.changed(`Marking begins at: ${this.words(this.word)}`);
  }

  end() {
    this.word = this.anchor = null;
    this.changed("");
  }

  /** Take notice of what is selected now; return whether that can be marked. */
  notice() {
    const place = this.selection();
    if (place) this.selected = { place, when: Infinity };
    else if (this.selected?.when === Infinity) this.selected.when = performance.now();
    return Boolean(place);
  }

  selection() {
    const chosen = getSelection();
    if (!chosen.rangeCount || chosen.isCollapsed) return null;
    const range = chosen.getRangeAt(0);
    const { root, text } = this.view;
    if (!range.intersectsNode(root)) return null;
    const start = this.view.placeOf(range.startContainer, range.startOffset);
    const end = this.view.placeOf(range.endContainer, range.endOffset);
    const place = [start ?? 0, end ?? text.length];
    return place[0] < place[1] ? place : null;
  }

  /** Return the next word from a place, or the one before it. */
  beside(place, step) {
    const words = this.view.words(step > 0 ? place : Math.max(0, place - 1));
    return step > 0 ? words.find((w) => w[0] >= place) : words.findLast((w) => w[1] <= place);
  }

  sentence(step) {
    const at = this.word[0];
    const sentences = this.view.sentences(at);
    const index = sentences.findIndex(([start, end]) => start <= at && at < end);
    const target = sentences[index + step];
    return target && this.view.words(target[0]).find((w) => w[0] >= target[0]);
  }

  /** Take a key while marking; return whether it was one of ours. */
  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      const sideways = event.key === "ArrowRight" || event.key === "ArrowLeft";
      const edge = step > 0 ? this.word[1] : this.word[0];
      const target = sideways ? this.beside(edge, step) : this.sentence(step);
      if (event.shiftKey) this.anchor ??= this.word;
      else this.anchor = null;
      this.word = target ?? this.word;
      this.changed(this.words(this.chosen()));
      return true;
    }
    if (event.key === " ") {
      const [start, end] = this.chosen();
      this.anchor = null;
      if (!this.removeAt(start)) this.add(start, end);
      return true;
    }
    if (event.key === "Escape" || event.key === "m") {
      this.end();
      return true;
    }
    return false;
  }
}
