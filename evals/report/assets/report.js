"use strict";
// The list of episodes and their transcripts. Texts of models reach the page through textContent only.
(() => {
  const ROWS = 50; // of a page of the list
  const CUT = 4000; // characters of a text that are shown at first
  const PIECE = 10000; // characters of a block of a long text, so that the browser lays out what is in view
  const KEPT = 6; // chunks in memory
  const SCORED = { correct: "good", wrong: "bad" };

  const byId = (id) => document.getElementById(id);
  const count = (number) => number.toLocaleString("en-US");
  const known = (value, form = String) => (value === null || value === undefined ? "unknown" : form(value));

  /** An element; texts among `children` become text nodes. */
  const make = (tag, look, ...children) => {
    const node = document.createElement(tag);
    if (look) node.className = look;
    node.append(...children);
    return node;
  };
  const button = (label, press) => {
    const node = make("button", "", label);
    node.type = "button";
    node.addEventListener("click", press);
    return node;
  };

  // Control, direction and zero-width characters, byte order marks, halves of surrogate pairs: shown by their number.
  const HIDDEN = new RegExp(
    "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f" +
      "\\ufeff\\ufff0-\\ufffb\\u{e0000}-\\u{e007f}]|\\p{Cs}",
    "gu",
  );
  const visible = (text) =>
    text.replace(/\r\n/g, "\n").replace(HIDDEN, (char) => {
      const hex = char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      return `\u27e8U+${hex}\u27e9`;
    });

  const unpack = async (text) => {
    const raw = atob(text.trim());
    const bytes = new Uint8Array(raw.length);
    for (let place = 0; place < raw.length; place += 1) bytes[place] = raw.charCodeAt(place);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };

  let meta = null;
  let episodes = [];
  let listed = [];
  let page = 0;
  let texts = null; // numbers of the episodes whose texts hold what is searched for; null: texts are not searched
  let search = 0; // counts searches, so that an old one notices that it is not wanted any more

  // -- chunks ------------------------------------------------------------------------------------------------------

  const chunks = new Map();
  const awaited = new Map();
  window.trinityChunk = (place, data) => awaited.get(place)?.(data);

  const fetched = (place, source) =>
    new Promise((resolve, reject) => {
      let came = false;
      awaited.set(place, (data) => { came = true; resolve(data); });
      const script = document.createElement("script");
      script.src = source;
      script.onerror = () => reject(new Error(`${source} is missing; keep report_data beside report.html`));
      script.onload = () => {
        script.remove();
        if (!came) reject(new Error(`${source} is damaged; python -m trinity.report writes it anew`));
      };
      document.head.append(script);
    });

  const load = async (place) => {
    if (!chunks.has(place)) {
      const held = byId(`chunk-${place}`);
      const data = held ? held.textContent : await fetched(place, meta.chunks[place][2]);
      awaited.delete(place);
      chunks.set(place, await unpack(data));
      if (chunks.size > KEPT) chunks.delete(chunks.keys().next().value);
    }
    return chunks.get(place);
  };

  const chunkOf = (number) => meta.chunks.findIndex(([first, many]) => number >= first && number < first + many);

  // -- one episode -------------------------------------------------------------------------------------------------

  const pieces = (text) => {
    const found = [];
    for (let start = 0; start < text.length; ) {
      let end = Math.min(start + PIECE, text.length);
      const line = text.lastIndexOf("\n", end);
      if (end < text.length && line > start) end = line + 1;
      else if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1])) end -= 1;
      found.push(make("span", "piece", visible(text.slice(start, end).replace(/\n$/, ""))));
      start = end;
    }
    return found;
  };

  const block = (text) => {
    const pre = make("pre", "text");
    pre.tabIndex = 0;
    if (text.length <= CUT) {
      pre.append(visible(text) || "(empty)");
      return pre;
    }
    pre.append(visible(text.slice(0, CUT)), "…");
    const more = button(`Show all ${count(text.length)} characters`, () => {
      pre.replaceChildren(...pieces(text));
      more.remove();
    });
    return make("div", "", pre, more);
  };

  const folded = (title, text) => {
    const node = make("details", "", make("summary", "", `${title}, ${count(text.length)} characters`));
    node.addEventListener("toggle", () => node.children.length < 2 && node.append(block(text)), { once: true });
    return node;
  };

  const callCard = (call, place, text) => {
    if (!call.agent) {
      return make("article", "call", make("h4", "", `Call ${place + 1}`), make("p", "", "This call is not stored."));
    }
    const head = [call.role, call.agent].filter(Boolean).join(" · ");
    const [given, written, thought] = call.tokens || [];
    const used = call.tokens ? `${count(given)} in, ${count(written)} out${thought ? `, ${count(thought)} hidden` : ""}` : "";
    const facts = [used && `tokens: ${used}`, `${call.latency} s`, `finish: ${call.finish}`, call.id].filter(Boolean);
    return make(
      "article", "call",
      make("h4", "", `${place + 1}. `, visible(head)),
      make("p", "facts", facts.join(" · ")),
      ...call.messages.map(([role, number]) => folded(`Message of ${visible(role)}`, text(number))),
      ...(call.reasoning === null ? [] : [folded("Reasoning", text(call.reasoning))]),
      block(text(call.text)),
      ...(call.verdict ? [make("p", "verdict", `Verdict: ${call.verdict}`)] : []),
    );
  };

  const facts = (episode, content) =>
    [
      ["status", episode.status],
      ["score", known(episode.score)],
      ...(content && content.raw_score !== episode.score ? [["score of the text alone", known(content.raw_score)]] : []),
      ["calls", count(episode.calls)],
      ["weighted tokens", count(episode.tokens)],
      ["seconds", known(episode.latency)],
    ].flatMap(([name, value]) => [make("dt", "", name), make("dd", "", String(value))]);

  const content = async (episode) => {
    const place = chunkOf(episode.number);
    const chunk = await load(place);
    const found = chunk.episodes[episode.number - meta.chunks[place][0]];
    const text = (number) => (number < 0 ? meta.shared[-1 - number] : chunk.texts[number]);
    const dl = make("dl", "", ...facts(episode, found));
    if (!found) return [dl, make("p", "", "The texts of this task must not leave the run's folder.")];
    return [
      dl,
      make("h4", "", "Question"), block(text(found.question)),
      make("h4", "", "Expected"), block(text(found.target)),
      make("h4", "", "Answer that was graded"),
      found.answer === null ? make("p", "", "None was found.") : block(text(found.answer)),
      ...found.calls.map((call, each) => callCard(call, each, text)),
    ];
  };

  const neighbour = (number, step) => listed[listed.findIndex((entry) => entry.number === number) + step];

  const open = async (number) => {
    const episode = episodes[number];
    const box = byId("episode");
    if (!episode) return box.replaceChildren();
    const go = (label, step) => {
      const node = button(label, () => { location.hash = `episode-${neighbour(number, step).number}`; });
      node.disabled = !neighbour(number, step);
      return node;
    };
    const title = `${episode.method} ${episode.variant}`.trim();
    const bar = make("div", "bar", go("Previous", -1), go("Next", 1), button("Close", () => { location.hash = "transcripts"; }));
    const head = make("h3", "", visible(`${title} · ${episode.task} · ${episode.item} · replicate ${episode.replicate}`));
    const body = make("div", "", make("p", "", "Loading …"));
    box.replaceChildren(head, bar, body);
    mark(number);
    try {
      body.replaceChildren(...(await content(episode)));
    } catch (error) {
      body.replaceChildren(make("p", "", visible(error.message)));
    }
    if (body.isConnected) {
      box.scrollIntoView({ block: "start" });
      box.focus({ preventScroll: true });
    }
    return undefined;
  };

  const follow = () => {
    const found = /^#episode-(\d+)$/.exec(location.hash);
    open(found ? Number(found[1]) : -1);
  };

  // -- the list ----------------------------------------------------------------------------------------------------

  const mark = (number) => {
    for (const row of byId("rows").children) row.classList.toggle("open", row.dataset.number === String(number));
  };

  const line = (episode) => {
    const show = button(visible(episode.item), () => {});
    show.className = "item";
    const row = make(
      "tr", "",
      make("th", "left", show),
      make("td", "left", visible(`${episode.method} ${episode.variant}`.trim())),
      make("td", "left", visible(episode.task)),
      make("td", `left ${SCORED[episode.status] || "other"}`, episode.status),
      ...[episode.replicate, known(episode.score), count(episode.tokens), known(episode.latency)].map((value) =>
        make("td", "", String(value)),
      ),
    );
    row.dataset.number = episode.number;
    row.addEventListener("click", () => { location.hash = `episode-${episode.number}`; });
    return row;
  };

  const draw = () => {
    const start = page * ROWS;
    byId("rows").replaceChildren(...listed.slice(start, start + ROWS).map(line));
    const end = Math.min(start + ROWS, listed.length);
    byId("count").textContent = listed.length ? `${count(start + 1)} to ${count(end)} of ${count(listed.length)}` : "none";
    byId("before").disabled = start === 0;
    byId("after").disabled = end >= listed.length;
  };

  const list = () => {
    const [method, task, status] = ["method", "task", "status"].map((name) => byId(name).value);
    const wanted = byId("query").value.trim().toLowerCase();
    listed = episodes.filter(
      (episode) =>
        (!method || episode.label === method) &&
        (!task || episode.task === task) &&
        (!status || episode.status === status) &&
        (!wanted || episode.names.includes(wanted) || Boolean(texts?.has(episode.number))),
    );
    page = 0;
    draw();
  };

  // -- search in texts ---------------------------------------------------------------------------------------------

  const searched = (chunk, first, wanted) => {
    const hits = chunk.texts.map((text) => text.toLowerCase().includes(wanted));
    const shared = meta.shared.map((text) => text.toLowerCase().includes(wanted));
    const hit = (number) => number !== null && (number < 0 ? shared[-1 - number] : hits[number]);
    chunk.episodes.forEach((episode, place) => {
      const own = episode && [episode.question, episode.target, episode.answer];
      const said = (call) => call.agent && [call.text, call.reasoning, ...call.messages.map(([, number]) => number)].some(hit);
      if (episode && (own.some(hit) || episode.calls.some(said))) texts.add(first + place);
    });
  };

  const forget = () => {
    search += 1;
    texts = null;
    byId("told").textContent = "";
    byId("search").textContent = "Search texts";
  };

  const searchTexts = async () => {
    const wanted = byId("query").value.trim().toLowerCase();
    const running = byId("search").textContent === "Stop";
    if (running || !wanted) return forget();
    forget();
    const mine = search;
    texts = new Set();
    byId("search").textContent = "Stop";
    try {
      for (let place = 0; place < meta.chunks.length; place += 1) {
        byId("told").textContent = `Searching part ${place + 1} of ${meta.chunks.length} …`;
        const chunk = await load(place);
        if (mine !== search) return undefined;
        searched(chunk, meta.chunks[place][0], wanted);
        list();
      }
      const found = texts.size === 1 ? "1 episode holds it in its texts." : `${count(texts.size)} episodes hold it in their texts.`;
      byId("told").textContent = found;
    } catch (error) {
      byId("told").textContent = error.message;
    }
    byId("search").textContent = "Search texts";
    return undefined;
  };

  // -- start -------------------------------------------------------------------------------------------------------

  const choose = (id, values) => {
    for (const value of [...new Set(values)]) {
      const option = make("option", "", visible(value));
      option.value = value;
      byId(id).append(option);
    }
    byId(id).addEventListener("change", list);
  };

  const start = async () => {
    meta = await unpack(byId("transcripts-meta").textContent);
    for (const held of document.querySelectorAll("script.index")) {
      const columns = await unpack(held.textContent);
      columns.item.forEach((_, place) => {
        const episode = { number: episodes.length };
        for (const name of Object.keys(columns)) episode[name] = columns[name][place];
        episode.label = `${episode.method} ${episode.variant}`.trim();
        episode.names = `${episode.label} ${episode.task} ${episode.item}`.toLowerCase();
        episodes.push(episode);
      });
    }
    choose("method", episodes.map((episode) => episode.label));
    choose("task", episodes.map((episode) => episode.task));
    choose("status", episodes.map((episode) => episode.status));
    byId("query").addEventListener("input", () => { forget(); list(); });
    byId("query").addEventListener("keydown", (event) => event.key === "Enter" && searchTexts());
    byId("search").addEventListener("click", searchTexts);
    byId("before").addEventListener("click", () => { page -= 1; draw(); });
    byId("after").addEventListener("click", () => { page += 1; draw(); });
    window.addEventListener("hashchange", follow);
    byId("browser").hidden = false;
    list();
    follow();
    document.documentElement.dataset.ready = "yes";
  };

  start().catch((error) => {
    byId("failed").hidden = false;
    byId("failed").textContent = `The transcripts cannot be shown: ${error.message}`;
  });
})();
