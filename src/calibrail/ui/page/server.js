// How does the page talk to the server on this machine?

// The token stays with this tab, and leaves the address at once.
const given = new URLSearchParams(location.search).get("token");
if (given) {
  sessionStorage.setItem("calibrail-token", given);
  history.replaceState(null, "", "/");
}
const token = sessionStorage.getItem("calibrail-token");

/** An answer of the server that is no state, in words. */
export class Refused extends Error {
  gone = false; // Whether nobody answered.
}

/** Ask the server; raise a `Refused` in words where nothing came of it. */
export async function ask(what, body) {
  if (!token) {
    throw new Refused("This tab has no token. Open the whole address that calibrail printed.");
  }
  const headers = { Authorization: `Bearer ${token}` };
  const options = body === undefined ? { headers } : {
    method: "POST",
    headers: { ...headers, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(`/api/${what}`, options);
  } catch {
    const refused = new Refused(
      "calibrail has ended, or does not answer. Nothing but this answer is lost: every label " +
      "before it is saved. Run the same command to resume, and open the address it prints.");
    refused.gone = true;
    throw refused;
  }
  const isJson = (answer.headers.get("Content-Type") ?? "").startsWith("application/json");
  const said = isJson ? await answer.json() : { message: await answer.text() };
  if (!answer.ok) throw new Refused(said.message || `The server said ${answer.status}.`);
  return said;
}
