// How is a text of any length and content shown, with places of it marked?

// Marks and cursors change one piece of a text, however long the text is.
const PIECE = 2000;

// A browser lays a paragraph out as a whole; one of a million characters would take it seconds.
const PARAGRAPH = 8000;

// What is not seen but acts is seen and does nothing: one letter for one, so that places stay.
// Joiners stay, which letters of some scripts and emoji need.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Return a text of the same length in which nothing hides. */
export function shown(raw) {
  return raw
    .replace(/\r(?!\n)|[\u0085\u2028\u2029]/g, "\n")
    .replace(/\r\n/g, " \n")
    .replace(HIDDEN, "\u25cc")
    .replace(LONE, "\ufffd");
}

// Code, and tables, whose columns line up only in letters of one width.
const CODE = /^ *(```|~~~)[^]*?(?:^ *\1.*$|(?![^]))|^[^|\n]*\|.*\n(?=.*-)(?=.*\|)[ \t:|-]+$(?:\n[^|\n]*\|.*)*|^ *\|.*\|.*$|^(?: {4}|\t).*$|`[^`\n]+`/gm;

/** Return where to cut a text: into pieces that end with a line or between two words. */
function cuts(text) {
  const ends = [];
  for (let start = 0; start < text.length;) {
    let end = Math.min(text.length, start + PIECE);
    if (end < text.length) {
      const line = text.lastIndexOf("\n", end - 1);
      const space = text.lastIndexOf(" ", end - 1);
      if (line >= start) end = line + 1;
      else if (space >= start) end = space + 1;
      else if (/[\udc00-\udfff]/.test(text[end])) end += 1;
    }
    ends.push(end);
    start = end;
  }
  return ends;
}

/** A text in an element, and places of it in UTF-16 code units, each with a class. */
export class TextView {
  constructor(root) {
    this.root = root;
    this.set("");
  }

  set(raw) {
    this.text = shown(raw);
    this.pieces = [];
    this.code = Array.from(this.text.matchAll(CODE), ({ 0: { length }, index }) => (
      [index, index + length, "code"]));
    this.root.replaceChildren();
    let start = 0, line = null, begun = 0;
    for (const end of cuts(this.text)) {
      if (line === null) {
        line = document.createElement("div");
        line.dir = "auto";
        begun = start;
        this.root.append(line);
      }
      const element = document.createElement("span");
      element.textContent = this.text.slice(start, end);
      line.append(element);
      this.pieces.push({ start, end, element, shape: "" });
      if (this.text[end - 1] === "\n" || end - begun >= PARAGRAPH) line = null;
      start = end;
    }
    this.decorate([]);
  }

  /** Show places ``[start, end, class]``; later ones lie over earlier ones. */
  decorate(places) {
    const all = [...this.code, ...places.filter(([start, end]) => start < end)];
    for (const piece of this.pieces) {
      const inside = all.filter(([start, end]) => start < piece.end && end > piece.start);
      const shape = JSON.stringify(inside);
      if (shape === piece.shape) continue;
      piece.shape = shape;
      const edges = new Set([piece.start, piece.end]);
      for (const [start, end] of inside) {
        edges.add(Math.max(start, piece.start)).add(Math.min(end, piece.end));
      }
      const sorted = [...edges].sort((a, b) => a - b);
      const parts = [];
      for (let i = 0; i + 1 < sorted.length; i += 1) {
        const [a, b] = [sorted[i], sorted[i + 1]];
        const classes = inside.filter(([start, end]) => start <= a && end >= b).map((p) => p[2]);
        const words = this.text.slice(a, b);
        if (!classes.length) {
          parts.push(words);
          continue;
        }
        const mark = document.createElement(classes.includes("unsupported") ? "mark" : "span");
        mark.className = [...new Set(classes)].join(" ");
        mark.textContent = words;
        parts.push(mark);
      }
      piece.element.replaceChildren(...parts);
    }
  }

  /** Return the element in which a place is shown. */
  at(place) {
    const piece = this.pieces.find(({ start, end }) => start <= place && place < end);
    if (!piece) return this.root;
    let seen = piece.start;
    for (const node of piece.element.childNodes) {
      seen += node.textContent.length;
      if (place < seen) return node.nodeType === Node.ELEMENT_NODE ? node : piece.element;
    }
    return piece.element;
  }

  /** Return which place of the text a place of the page is, or null where it is outside. */
  placeOf(node, offset) {
    if (!this.root.contains(node)) return null;
    const before = document.createRange();
    const piece = this.pieces.find(({ element }) => element.contains(node));
    if (piece) {
      before.setStart(piece.element, 0);
      before.setEnd(node, offset);
      return piece.start + before.toString().length;
    }
    // Between two pieces, or around all of them.
    before.setStart(this.root, 0);
    before.setEnd(node, offset);
    return before.toString().length;
  }

  /** Return the place of the text under a point of the window, or null. */
  placeUnder(x, y) {
    const caret = document.caretPositionFromPoint?.(x, y);
    if (caret) return this.placeOf(caret.offsetNode, caret.offset);
    const range = document.caretRangeFromPoint?.(x, y);
    return range ? this.placeOf(range.startContainer, range.startOffset) : null;
  }

  /** Return the words of the stretch around a place, as places. */
  words(place) {
    return segments(this.text, this.stretch(place), "word")
      .filter(({ isWordLike, segment }) => isWordLike || /[^\s\p{P}]/u.test(segment))
      .map(({ start, end }) => [start, end]);
  }

  /** Return the sentences of the stretch around a place, as places. */
  sentences(place) {
    return segments(this.text, this.stretch(place), "sentence")
      .filter(({ segment }) => segment.trim())
      .map(({ start, end }) => [start, end]);
  }

  stretch(place) {
    const found = this.pieces.findIndex(({ end }) => place < end);
    const index = found < 0 ? this.pieces.length - 1 : found;
    if (index < 0) return [0, 0];
    const first = this.pieces[Math.max(0, index - 1)];
    const last = this.pieces[Math.min(this.pieces.length - 1, index + 1)];
    return [first.start, last.end];
  }

  /** Return a place grown to whole words. */
  whole(start, end) {
    const touched = [...this.words(start), ...this.words(end - 1)]
      .filter((word) => word[0] < end && word[1] > start);
    if (!touched.length) return null;
    return [Math.min(...touched.map((w) => w[0])), Math.max(...touched.map((w) => w[1]))];
  }
}

function segments(text, [from, to], granularity) {
  const part = text.slice(from, to);
  const cutter = new Intl.Segmenter(undefined, { granularity });
  return Array.from(cutter.segment(part), ({ segment, index, isWordLike }) => (
    { segment, isWordLike, start: from + index, end: from + index + segment.length }
  ));
}
