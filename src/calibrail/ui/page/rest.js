// What is said where there is nothing to label now?

export const $ = (id) => document.getElementById(id);

export const plural = (n, one, many = `${one}s`) =>
  `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/** Say that there is nothing to label now, and why. */
export function rest(state, decided) {
  const { counts } = state;
  const goes = $("rest-go");
  goes.hidden = Boolean(state.stopped) || !(decided && state.task);
  $("rest-stop").hidden = Boolean(state.stopped);
  let title = "There is nothing to label now";
  let text = "Every answer that is yours to label has its label. You may stop here.";
  if (state.stopped) {
    title = "Stopped, and everything is saved";
    text = "You may close this tab. The terminal says what came out, and what to do next; run the " +
      "same command to resume.";
  } else if (decided) {
    title = "The labels are enough";
    text = counts.needed === null
      ? "The verdict is reached, and is not shown here, so that it sways nobody who labels on. Stop, " +
        "and the terminal shows it; further labels do no harm."
      : "These are the fewest that the promise needs. Stop, and the terminal says what more of " +
        "them would bring.";
  } else if (counts.waiting) {
    text = `${plural(counts.waiting, "answer waits", "answers wait")} for another annotator.`;
  } else if (counts.disagreements) {
    text = `Annotators disagree on ${plural(counts.disagreements, "answer")}; the same command ` +
      "with --settle shows them again.";
  } else if (counts.needed > counts.found) {
    text = `Every answer is labelled. Of these ${counts.found} are hallucinated, and ${counts.needed} are ` +
      "needed: stop, and the terminal says how to go on with more answers.";
  }
  $("rest-title").textContent = title;
  $("rest-text").textContent = text;
  // Labels and answers are two things where an answer takes two labels.
  const facts = [["labels by you", counts.by_you],
    ["answers with a final label", counts.labelled === counts.by_you ? 0 : counts.labelled],
    ["disagreements", counts.disagreements], ["skipped", counts.skipped]];
  $("rest-counts").replaceChildren(...facts.filter(([, n], at) => n || !at).map(([name, n]) => {
    const [fact, term, value] = ["div", "dt", "dd"].map((kind) => document.createElement(kind));
    term.textContent = name;
    value.textContent = n.toLocaleString("en");
    fact.append(term, value);
    return fact;
  }));
}
