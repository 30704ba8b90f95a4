// How are the chunks of an answer listed, and how does one come to them?

import { TextView } from "./text.js";

// A second digit within this time, in milliseconds, belongs to the first.
const PAUSE = 900;

export class Chunks {
  constructor(root, rail, above) {
    this.root = root;
    this.rail = rail;
    this.above = above;
    // What stands above the chunks and stays there covers them by its height.
    const measure = new ResizeObserver(() => this.cover());
    for (const element of above) measure.observe(element);
    this.watcher = new IntersectionObserver(() => this.follow(), { threshold: [0, 0.1, 0.5, 1] });
  }

  set(contexts) {
    this.watcher.disconnect();
    this.digits = "";
    this.now = 0;
    this.items = contexts.map((text, index) => {
      const box = document.createElement("article");
      const name = document.createElement("h3");
      name.textContent = `Chunk ${index + 1}`;
      name.tabIndex = -1;
      const body = document.createElement("div");
      body.className = "text";
      box.append(name, body);
      const view = new TextView(body);
      view.set(text);
      if (!text.trim()) box.classList.add("blank");
      this.watcher.observe(box);
      return { box, name, view };
    });
    if (!contexts.length) {
      const none = document.createElement("p");
      none.className = "quiet";
      none.textContent = "There are no chunks: judge by the question alone.";
      this.root.replaceChildren(none);
    } else {
      this.root.replaceChildren(...this.items.map(({ box }) => box));
    }
    this.links = this.items.map((_, index) => {
      const link = document.createElement("button");
      link.type = "button";
      link.textContent = index + 1;
      link.setAttribute("aria-label", `Chunk ${index + 1}`);
      link.addEventListener("click", () => this.jump(index));
      return link;
    });
    this.rail.replaceChildren(...this.links);
    this.rail.hidden = this.items.length < 2;
    this.show(0);
  }

  /** Mark in the rail which chunk is being read. */
  follow() {
    const top = this.covered ?? 0;
    const at = this.items.findIndex(({ box }) => box.getBoundingClientRect().bottom > top + 40);
    if (at >= 0) this.show(at);
  }

  show(index) {
    this.now = index;
    for (const [place, link] of this.links.entries()) {
      if (place === index) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    const link = this.links[index];
    if (link) {
      const { rail } = this;
      const hidden = link.offsetLeft < rail.scrollLeft ||
        link.offsetLeft + link.offsetWidth > rail.scrollLeft + rail.clientWidth;
      if (hidden) rail.scrollLeft = link.offsetLeft - rail.clientWidth / 2;
    }
  }

  /** Find how much of the window's top is covered, so that a jump ends below. */
  cover() {
    const { left, right } = this.root.getBoundingClientRect();
    const header = document.querySelector("header");
    const over = [header, ...this.above].filter((element) => {
      const box = element.getBoundingClientRect();
      const stays = getComputedStyle(element).position === "sticky";
      return stays && box.left < right && box.right > left;
    });
    this.covered = over.reduce((sum, element) => sum + element.offsetHeight, 0);
    document.documentElement.style.setProperty("--covered", `${this.covered}px`);
  }

  jump(index) {
    const item = this.items[index];
    if (!item) return false;
    item.box.scrollIntoView({ block: "start" });
    item.name.focus({ preventScroll: true });
    this.show(index);
    return true;
  }

  /** Take a digit: 1 jumps to chunk 1, a 2 soon after it to chunk 12. */
  digit(letter) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.digits = ""; }, PAUSE);
    this.digits += letter;
    if (!this.items[Number(this.digits) - 1]) this.digits = letter;
    return this.jump(Number(this.digits) - 1);
  }

  /** Show a quote in its chunk, and none elsewhere. */
  quote(found) {
    for (const { view } of this.items) view.decorate([]);
    if (!found) return;
    const { view, box } = this.items[found.chunk];
    view.decorate([[found.start, found.end, "quote"]]);
    this.show(found.chunk);
    box.scrollIntoView({ block: "start" });
    const mark = view.at(found.start);
    const { bottom } = mark.getBoundingClientRect();
    if (bottom > innerHeight * 0.7) {
      scrollBy({ top: bottom - innerHeight * 0.55 });
    }
  }
}
