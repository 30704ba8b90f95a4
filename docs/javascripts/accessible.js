// What the theme leaves unsaid to screen readers and keyboards, on every page it loads.
document$.subscribe(() => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-code__nav").forEach((nav, i) => {
    nav.setAttribute("aria-label", `Code block ${i + 1}`);
  });
  const scrolled = ".md-typeset__scrollwrap, .md-typeset pre > code, .highlight-ipynb";
  document.querySelectorAll(scrolled).forEach((part) => part.setAttribute("tabindex", "0"));
});
