/* The page: what is shown, and where it comes from. */
const REFRESH_MS = 3000, SWITCHED_MS = 500, FIRST_NAMES_MS = 150, MAX_EVENTS = 200;
const byId = (id) => document.getElementById(id);
let source = null; /* where moments come from: moments(), the moments that there are, the last one last */
let column = 0, figure = IN_USE, view = "table", search = "";
let chosen = null; /* the moment that is shown; null: the last one */
let base = null; /* the moment to compare with */
let focus = null; /* the context whose parts the history shows */

const table = new Table(byId("head"), byId("rows"), byId("rest"), (to) => {
  column = to;
  if (to >= 0 && COLUMNS[to].figure !== PEAK) figure = COLUMNS[to].figure;
  draw();
}, draw);
const hasPictures = typeof flamegraph === "object" && typeof uPlot === "function";
const flame = new Flame(byId("picture"), byId("details"), (context) => { focus = context; });
const chart = new Chart(byId("picture"), (moment) => { chosen = moment; draw(); });

const timeText = (moment) => new Date(moment.time * 1000).toLocaleTimeString();
const shownMoment = (moments) => chosen && moments.includes(chosen) ? chosen : moments.at(-1);

/* The contexts that the search is about; null if there is no search. */
function searchIn(moment) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  const text = (context) => [nameOf(context), labelsOf(context), context.target, context.place].join(" ").toLowerCase();
  return new Set(moment.contexts().filter((context) => words.every((word) => text(context).includes(word))));
}

/* What the contexts found have of a figure; one below another one counts once. */
function sumOf(found, moment) {
  let sum = 0;
  for (const context of found) {
    let above = context.parent;
    while (above && !found.has(above)) above = above.parent;
    if (!above) sum += moment.total_of(context, figure);
  }
  return sum;
}

const allOf = (moment, which) => moment.contexts().reduce((sum, context) => context.parent ? sum : sum + moment.total_of(context, which), 0);

function drawTimes(moments, moment) {
  Object.assign(byId("moment"), { max: moments.length - 1, value: moments.indexOf(moment) });
  byId("when").textContent = (moment.title || timeText(moment)) + (moment === moments.at(-1) && source.live ? " (now)" : "") +
    (moment.isPart ? ", largest spans only" : "");
  byId("moment").disabled = moments.length < 2;
  byId("base").hidden = byId("forget").hidden = !base;
  if (base) byId("base").textContent = "changes since " + (base.title || timeText(base));
}

function draw() {
  const moments = source ? source.moments() : [];
  byId("figure").value = String(figure);
  for (const made of document.querySelectorAll(".for-table")) made.hidden = view !== "table";
  const isFacts = view in FACTS, isPicture = view !== "table" && !isFacts;
  for (const made of document.querySelectorAll(".for-spans")) made.hidden = isFacts || (made.classList.contains("live") && !source?.live);
  byId("no-calls").hidden = isFacts || !source?.calls || source.stacks !== "off";
  byId("takes-calls").hidden = isFacts || !source?.calls || source.stacks === "off" || !source.maySwitch;
  byId("no-names").hidden = isFacts || !source?.calls || source.stacks === "off" || source.names !== "none";
  byId("spans").hidden = byId("rest").hidden = view !== "table";
  byId("picture").hidden = !isPicture || !hasPictures;
  byId("details").hidden = byId("picture").hidden || view === "history";
  byId("lacks").hidden = !isPicture || hasPictures;
  for (const made of ["facts", "no-facts", "facts-note", "waterfall"]) byId(made).hidden = true;
  byId("svg").hidden = byId("picture").hidden;
  byId("events").hidden = view !== "history";
  if (isFacts) return drawFacts(view, source?.facts[view]);
  if (!moments.length) return;
  const moment = shownMoment(moments), changed = base ? difference(moment, base) : null;
  drawTimes(moments, moment);
  byId("fold").textContent = table.collapsed.size ? "Expand all" : "Collapse all";
  const shown = changed || moment, found = searchIn(shown);
  const sum = found && sumOf(found, moment);
  byId("found").textContent = found ? count(found.size) + " spans, " + FIGURES[figure].show(sum) + ", " + percent(sum / (allOf(moment, figure) || 1)) : "";
  if (view === "table")
    table.draw({ shown, changed, column, own: byId("own").checked, tree: byId("tree").checked, found, all: (which) => allOf(moment, which) || 1 });
  else if (!hasPictures) return;
  else if (view === "history") {
    const series = source.series(figure, focus), events = source.events();
    drawEvents(events, moments);
    chart.draw({ moments, figure, series, resident: !focus, events, limits: limitsOf(series.root),
      marked: [{ time: moment.time, dash: [] }, ...(base ? [{ time: base.time, dash: [6, 3] }] : [])] });
  } else
    byId("svg").hidden = !flame.draw({ moment, changed, figure, icicle: view === "icicle", found });
}

/* The events, the newest first. Each leads to its moment. */
function drawEvents(events, moments) {
  const text = JSON.stringify(events);
  if (byId("events").dataset.shown === text) return; /* so that it keeps the focus */
  byId("events").dataset.shown = text;
  byId("events").replaceChildren(...events.slice().reverse().map((event) => {
    const made = document.createElement("li"), button = element("button", timeText(event) + " " + event.title);
    button.type = "button";
    button.addEventListener("click", () => {
      chosen = source.moments().find((moment) => moment.time >= event.time) || null;
      draw();
    });
    made.append(button);
    return made;
  }));
}

/* The limits of a context, for the chart. */
function limitsOf(context) {
  const limit = source.facts.limits?.find((made) => made.context === context);
  return ["soft", "hard"].map((kind) => ({ title: kind + " limit", bytes: limit?.[kind + "_bytes"] })).filter((made) => made.bytes);
}

/* What downloads are named after. */
let savedAs = "jespan";
const saved = (ending) => savedAs.replace(/[^\w.-]/g, "_") + ending;

function drawHeader(answer) {
  savedAs = answer.program;
  byId("program").textContent = answer.program + " (" + answer.pid + ")";
  document.title = answer.program + " · jespan";
  byId("sums").textContent = "in use " + bytes(answer.all.inuse_bytes) + " in " + count(answer.all.inuse_objects) +
    " objects · resident " + bytes(answer.resident_bytes) + " · allocated " + bytes(answer.all.alloc_bytes) +
    (answer.left_out ? " · " + count(answer.left_out) + " smaller spans left out" : "");
}

function say(text, className) {
  Object.assign(byId("state"), { textContent: text, className });
}

/* ---- Downloads: what is shown, of the figure that is chosen ---- */

function download(link, name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  Object.assign(link, { href: url, download: name });
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

/* As the exporter "folded" writes names. */
const escaped = (text) => text.replace(/[\u0000-\u0020;%\u007f]/g, (letter) => "%" + letter.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0"));

function foldedText(moment) {
  return moment.contexts().filter((context) => moment.own_of(context, figure) > 0).map((context) => pathOf(context).map((at) => {
    const labels = Object.entries(at.labels).map(([key, value]) => escaped(key) + "=" + escaped(value)).join(",");
    return (at.name ? escaped(at.name) : "(unnamed)") + (labels && "{" + labels + "}");
  }).join(";") + " " + moment.own_of(context, figure) + "\n").join("");
}

/* What is drawn now. */
function pictureSvg() {
  const moment = shownMoment(source.moments()), title = document.title + " · " + FIGURES[figure].title;
  if (view === "history") return chartSvg(chart.shown, title + (focus ? " of " + titleOf(focus) : ""));
  return flameSvg(flame, title + " · " + (base ? "changes from " + timeText(base) + " to " : "") + timeText(moment));
}

function csvText(moment) {
  const field = (text) => /[",\r\n]/.test(text) ? "\"" + text.replaceAll("\"", "\"\"") + "\"" : text;
  const head = ["path", "place", ...FIGURES.flatMap((f) => [f.name, "own_" + f.name])];
  const lines = moment.contexts().map((context) => [pathOf(context).map(titleOf).join(" > "), context.place,
    ...FIGURES.flatMap((_, f) => [moment.total_of(context, f), moment.own_of(context, f)].map(String))]);
  return [head, ...lines].map((line) => line.map(field).join(",") + "\r\n").join("");
}

/* ---- The program that is asked ---- */

class Live {
  live = true;
  history = new History();
  withCalls = new History(); /* moments in which the calls that allocated are below each span; no samples have them */
  calls = false; /* whether these are shown */
  stacks = "";   /* the mode of stacks in the program */
  maySwitch = false; /* whether this page may change it */
  names = "";    /* which calls have names: docs/http.md */
  namesMs = FIRST_NAMES_MS; /* until they are asked for again */
  contexts = new Contexts();
  paused = false;
  token = "";
  process = "";
  shown = null; /* { pid, program, time } of the last answer; null: none yet of the process that was chosen */
  happened = []; /* events, the oldest first */
  facts = {}; /* what is shown in the views of FACTS */
  readings = {}; /* by view: when the service may be asked next */
  allocated = 0; /* so far, by that process */
  sampled = 0;   /* when the service took the last sample that is here; 0: none is */
  pid = new URLSearchParams(location.search).get("pid") ?? ""; /* the process that was chosen; "": the first */

  moments() { return (this.calls ? this.withCalls : this.history).moments; }
  events() { return this.happened; }
  shows() { return true; }
  series(figure, context) { return seriesOf(this.moments(), figure, context); }

  async refresh() {
    try {
      const how = this.how();
      if (!await this.refreshProcesses(how)) return say(this.ended(), "failed");
      const pid = this.pid, of = pid && "&pid=" + pid, answer = await fetch("spans?format=json" + of, how);
      byId("ask").hidden = answer.status !== 401;
      if (!answer.ok) throw new Error(await answer.text());
      const spans = await answer.json();
      if (pid !== this.pid) return; /* another one was chosen meanwhile */
      this.begin(spans);
      const get = async (path) => (await fetch(path + (path.includes("?") ? "&" : "?") + of.slice(1), how)).json();
      const [history, { limits }, { arenas }] = await Promise.all(["history?since=" + this.sampled.toFixed(9),
        "limits?format=json", "arenas?format=json"].map(get));
      if (this.calls) this.takeCalls(await get("stacks"));
      this.take(spans, history, limits, arenas);
      await this.read(view);
    } catch (error) {
      say(this.why(error), "failed");
    }
  }

  /* Sets which stacks the program takes. It may do so only when it next allocates. */
  async switchStacks(mode) {
    try {
      const how = this.how();
      const answer = await fetch("stacks?mode=" + mode + (this.pid && "&pid=" + this.pid), { ...how, method: "POST", headers: { ...how.headers, "X-Jespan": "1" } });
      const text = (await answer.text()).trim();
      say("stacks " + mode + ": " + text, answer.ok ? "" : "failed");
      if (answer.ok) setTimeout(() => this.refresh(), SWITCHED_MS);
    } catch (error) {
      say(this.why(error), "failed");
    }
  }

  /* What is said when the process is served no longer. Its figures stay. */
  ended() {
    if (!this.shown) return "Process " + this.pid + " is not here, or has ended. Choose another one.";
    return this.shown.program + " (" + this.shown.pid + ") has ended. Its last figures are of " + timeText(this.shown) +
      "; they stay here until you choose another process.";
  }

  /* Why there is no answer. fetch() throws a TypeError where nobody answers. */
  why(error) {
    if (!(error instanceof TypeError)) return error.message;
    if (!this.shown) return "Nobody answers at this address.";
    return "Nobody answers here any more: " + this.shown.program + " (" + this.shown.pid +
      ") has ended, or cannot be reached. The last figures are of " + timeText(this.shown) + ", and all of them stay here.";
  }

  /* Asks for the view that is shown. The service reads the process for it, so that is at most a tenth of the time. */
  async read(kind) {
    const path = FACTS[kind]?.path, began = performance.now(), pid = this.pid, of = pid || this.shown?.pid;
    if (!path || began < this.readings[kind]) return;
    this.readings[kind] = Infinity; /* until there is an answer */
    let answer, isGone = false;
    try {
      const got = await fetch(path + (of ? "?pid=" + of : ""), this.how());
      isGone = got.status === 404;
      answer = got.ok ? await got.json() : { error: isGone ? this.ended() : await got.text() };
    } catch (error) {
      isGone = error instanceof TypeError;
      answer = { error: this.why(error) };
    }
    this.readings[kind] = pid === this.pid ? performance.now() + 9 * (performance.now() - began) : 0;
    if (pid !== this.pid) return;
    if (!isGone || !this.facts[kind]) this.facts[kind] = answer; /* the last figures stay */
    if (view === kind) draw();
  }

  how() {
    return { headers: this.token ? { Authorization: "Bearer " + this.token } : {}, cache: "no-store" };
  }

  /* A menu where there is a choice. The choice stays when the list changes. Returns false if the process is served no longer. */
  async refreshProcesses(how) {
    const answer = await fetch("processes", how);
    if (!answer.ok) return true;
    const processes = (await answer.json()).processes, menu = byId("pid"), chosenPid = this.pid || String(this.shown?.pid ?? "");
    const isServed = !chosenPid || processes.some((process) => String(process.pid) === chosenPid);
    const option = (text, pid) => Object.assign(element("option", text), { value: String(pid) });
    byId("which").hidden = isServed ? processes.length < 2 : !processes.length;
    menu.replaceChildren(...processes.map((process) => option(process.program + " (" + process.pid + ") " + bytes(process.inuse_bytes), process.pid)));
    if (!isServed) menu.append(option((this.shown ? this.shown.program + " (" + chosenPid + ")" : chosenPid) + " has ended", chosenPid));
    menu.value = chosenPid || menu.options[0]?.value;
    for (const link of document.querySelectorAll("#links a")) {
      const url = new URL(link.getAttribute("href"), location);
      if (this.pid) url.searchParams.set("pid", this.pid);
      else url.searchParams.delete("pid");
      link.href = url;
    }
    return isServed;
  }

  /* Another process, or another program in it, whose counters began anew, has a history of its own. */
  begin(answer) {
    const process = answer.program + " " + answer.pid;
    if (this.process !== process || answer.all.alloc_bytes < this.allocated) {
      this.history = new History();
      this.withCalls = new History();
      this.sampled = 0;
      this.happened = [];
      chosen = base = focus = flame.zoomed = null;
      this.facts = {};
      this.readings = {};
      this.process = process;
    }
    this.allocated = answer.all.alloc_bytes;
    this.shown = { pid: answer.pid, program: answer.program, time: answer.time };
  }

  /* A call without its name would look like another one later. So a moment that lacks names gives way to the next, which is soon. */
  takeCalls(answer) {
    this.names = answer.names;
    this.withCalls.moments = this.withCalls.moments.filter((moment) => !moment.lacksNames);
    if (base?.lacksNames) base = null;
    this.withCalls.add(Object.assign(momentOf(answer, this.contexts), { resident: answer.resident_bytes, lacksNames: answer.names === "some" }));
    clearTimeout(this.asksAgain);
    this.namesMs = answer.names === "some" ? Math.min(2 * this.namesMs, REFRESH_MS) : FIRST_NAMES_MS;
    if (answer.names === "some") this.asksAgain = setTimeout(() => this.refresh(), this.namesMs);
  }

  take(answer, history, limits, arenas) {
    this.stacks = answer.stacks;
    this.maySwitch = answer.may_switch;
    byId("mode").textContent = answer.stacks;
    for (const made of document.querySelectorAll("#no-calls .switch")) made.hidden = !this.maySwitch;
    for (const made of document.querySelectorAll("#no-calls .no-switch")) made.hidden = this.maySwitch;
    byId("ctl-pid").textContent = answer.pid;
    const unknown = answer.stacks === "off" && !answer.all.temporary_objects ? TEMPORARY : -1; /* counted only where stacks are taken */
    table.hide(COLUMNS.map((made) => made.figure === unknown));
    byId("figure").options[TEMPORARY].hidden = byId("figure").options[TEMPORARY].disabled = unknown === TEMPORARY;
    const contextOf = contextsOf(answer.spans, this.contexts);
    const find = (limit) => contextOf.get(limit.id) || contextsOf([limit], this.contexts).get(limit.id);
    this.facts = { ...this.facts, arenas, limits: limits.map((limit) => ({ ...limit, context: find(limit) })) };
    const moment = Object.assign(momentOf(answer, this.contexts), { resident: answer.resident_bytes });
    this.happened = [...this.happened, ...eventsOf(history).filter((event) => event.time > this.sampled)]
      .filter((event) => event.time > answer.time - HISTORY_S).slice(-MAX_EVENTS);
    const samples = samplesOf(history, this.contexts).filter((sample) => sample.time > this.sampled); /* times are rounded here */
    if (samples.length) this.sampled = samples.at(-1).time;
    if (this.history.add(moment, samples, history.interval_s)) this.contexts.keep([...this.history.moments, ...this.withCalls.moments, ...(base ? [base] : [])]);
    say(timeText(moment) + (this.calls && this.names === "some" ? ", names of calls are looked up" : ""), "");
    drawHeader(answer);
    draw();
  }

  async run() {
    byId("pause").addEventListener("click", () => {
      this.paused = !this.paused;
      byId("pause").textContent = this.paused ? "Go on" : "Pause";
    });
    byId("pid").addEventListener("change", () => {
      this.pid = byId("pid").value;
      this.shown = null;
      this.refresh();
    });
    byId("ask").addEventListener("submit", (event) => {
      event.preventDefault();
      this.token = byId("token").value;
      this.refresh();
    });
    for (;;) {
      if (!this.paused && !document.hidden) await this.refresh();
      await new Promise((done) => setTimeout(done, REFRESH_MS));
    }
  }
}

/* ---- What the reader chooses ---- */

byId("figure").append(...FIGURES.slice(0, PEAK).map((made, i) => Object.assign(element("option", made.title, made.help), { value: String(i) })));
byId("figure").addEventListener("change", () => {
  figure = Number(byId("figure").value);
  column = COLUMNS.findIndex((made) => made.figure === figure);
  draw();
});
byId("views").addEventListener("change", (event) => {
  view = event.target.value;
  draw();
  if (source?.live) source.read(view);
});
byId("calls").addEventListener("change", () => {
  source.calls = byId("calls").checked;
  chosen = base = focus = flame.zoomed = null;
  draw();
  source.refresh();
});
for (const [id, mode] of [["take-sampled", "sampled"], ["take-all", "all"], ["take-none", "off"]])
  byId(id).addEventListener("click", () => source.switchStacks(mode));
byId("tree").addEventListener("change", draw);
byId("own").addEventListener("change", draw);
byId("fold").addEventListener("click", () => table.toggleAll(shownMoment(source.moments())));
byId("search").addEventListener("input", () => { search = byId("search").value; draw(); });
byId("moment").addEventListener("input", () => {
  const moments = source.moments(), at = Number(byId("moment").value);
  chosen = at === moments.length - 1 ? null : moments[at];
  draw();
});
byId("since").addEventListener("click", () => {
  base = shownMoment(source.moments());
  chosen = null;
  draw();
});
byId("forget").addEventListener("click", () => { base = null; draw(); });
byId("folded").addEventListener("click", (event) => download(event.currentTarget, saved(".folded"), "text/plain", foldedText(shownMoment(source.moments()))));
byId("csv").addEventListener("click", (event) => download(event.currentTarget, saved(".csv"), "text/csv", csvText(shownMoment(source.moments()))));
byId("pprof").addEventListener("click", (event) => download(event.currentTarget, saved(".pb"), "application/octet-stream",
  pprofBytes(shownMoment(source.moments()), figure, (f) => source.shows(f))));
byId("svg").addEventListener("click", (event) => download(event.currentTarget, saved(".svg"), "image/svg+xml", pictureSvg()));
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (view !== "table" && window.innerWidth !== width) draw();
  width = window.innerWidth;
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

async function start() {
  const text = byId("dumps").content.textContent.trim();
  if (text.startsWith("@")) {
    source = new Live();
    return source.run();
  }
  for (const made of [byId("pause"), byId("links"), ...document.querySelectorAll(".live")]) made.hidden = true;
  try {
    source = await Dumps.read(text);
    byId("program").textContent = "jespan · " + count(source.moments().length) + (source.moments().length === 1 ? " dump" : " dumps");
    const shown = FIGURES.map((_, i) => source.shows(i));
    [...byId("figure").options].forEach((option, i) => { option.hidden = option.disabled = !shown[i]; });
    table.hide(COLUMNS.map((made) => !shown[made.figure]));
    figure = shown.indexOf(true);
    column = COLUMNS.findIndex((made) => made.figure === figure);
    draw();
  } catch (error) {
    say("This browser cannot read the dumps: " + error.message, "failed");
  }
}
draw();
start();
