"use strict";
// What the page does beyond plain HTML. Without it everything can be read and decided.

// A form of filters leaves out its empty fields, so that the address has only what was chosen.
for (const form of document.querySelectorAll("form.filters")) {
  form.addEventListener("submit", () => {
    for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
  });
  addEventListener("pageshow", () => {
    for (const field of form.elements) field.disabled = false;
  });
}

// The list of traces inserts new rows at its top. Its stream is open while the tab is visible and the list is not
// paused; it continues after the last id, and begins anew when that brings nothing.
const live = document.querySelector("[data-live]");
if (live) {
  const rows = document.querySelector("table.traces tbody");
  const [button, status] = [live.querySelector("button"), live.querySelector("[role=status]")];
  const most = 200, summaryEvery = 10_000;
  let paused = false, ended = false, stop = null, last = "", wait = 2000, fresh = 0, skipped = 0, told = 0;
  live.hidden = false;

  const say = (text, state) => {
    live.dataset.state = state;
    if (status.textContent !== text) status.textContent = text;
  };
  // Screen readers get a summary, not each row.
  const summary = () => {
    if (live.dataset.state === "on" && Date.now() - told < summaryEvery) return;
    told = Date.now();
    const many = fresh === 1 ? "1 new trace" : fresh + " new traces";
    say("Live" + (fresh ? ": " + many : "") + (skipped ? "; " + skipped + " came too fast and are not shown" : "") + ".", "on");
  };
  const take = (event, data) => {
    if (event === "signedout") return end();
    if (event === "skipped") skipped += Number(data);
    if (event === "fresh") rows.replaceChildren();
    if (data && (event === "fresh" || event === "rows")) {
      const before = rows.rows.length;
      rows.insertAdjacentHTML("afterbegin", data); // made by the server with the template of the list
      if (event === "rows") fresh += rows.rows.length - before;
      while (rows.rows.length > most) rows.deleteRow(-1);
    }
    summary();
  };
  const end = () => {
    ended = true;
    button.hidden = true;
    say("You were signed out: reload the page to sign in again.", "off");
  };
  const read = async (signal) => {
    const headers = { Accept: "text/event-stream" };
    if (last) headers["Last-Event-ID"] = last;
    const answer = await fetch(live.dataset.live, { headers, signal, redirect: "manual", cache: "no-store" });
    if (answer.type === "opaqueredirect") return end();
    if (!answer.ok) {
      const plain = (answer.headers.get("Content-Type") || "").startsWith("text/plain");
      throw new Error(plain ? (await answer.text()).trim() : "status " + answer.status);
    }
    let text = "", any = false;
    const from = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await from.read(); !part.done && !ended; part = await from.read()) {
      const blocks = (text + part.value).split("\n\n");
      text = blocks.pop();
      for (const block of blocks) {
        let event = "", data = "";
        for (const line of block.split("\n")) {
          if (line.startsWith("event: ")) event = line.slice(7);
          if (line.startsWith("data: ")) data += line.slice(6);
          if (line.startsWith("id: ")) { last = line.slice(4); any = true; }
        }
        take(event, data);
        wait = 2000;
      }
    }
    if (!any) last = "";
  };
  const run = async () => {
    if (stop || ended) return;
    const mine = stop = new AbortController();
    while (!mine.signal.aborted && !ended) {
      let why = "";
      try { await read(mine.signal); } catch (error) { why = error.message; }
      if (mine.signal.aborted || ended) break;
      say("Disconnected" + (why ? " (" + why + ")" : "") + "; trying again.", "off");
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(2 * wait, 60_000);
    }
    if (stop === mine) stop = null;
  };
  const choose = () => {
    if (!paused && document.visibilityState === "visible") return run();
    if (stop) stop.abort();
    stop = null;
  };
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    say(paused ? "Paused." : "Connecting…", "paused");
    choose();
  });
  document.addEventListener("visibilitychange", choose);
  choose();
}
