// What the theme leaves unsaid to screen readers and keyboards, on every page it loads.
const reached = (part) => part.tabIndex < 0 && part.setAttribute("tabindex", "0");
// The theme takes it from code on touch screens, which have keyboards, too.
const taken = new MutationObserver((changes) => changes.forEach(({ target }) => reached(target)));
document$.subscribe(() => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-code__nav").forEach((nav, i) => {
    nav.setAttribute("aria-label", `Code block ${i + 1}`);
  });
  const scrolled = ".md-typeset__scrollwrap, .md-typeset pre > code, .highlight-ipynb";
  document.querySelectorAll(scrolled).forEach((part) => {
    reached(part);
    taken.observe(part, { attributeFilter: ["tabindex"] });
  });
});
