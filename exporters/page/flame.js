/* The flame graph and the icicle, by d3-flame-graph. A frame is a context; its width is one figure of all contexts below it.
 * Where there is a moment to compare with, a frame that grew is red, and one that shrank is blue. */
const FRAME_HEIGHT = 22;

class Flame {
  zoomed = null; /* the context that fills the width; null: all */

  /* `choose` is called with the context that was zoomed into. */
  constructor(place, details, choose) {
    Object.assign(this, { place, details, choose });
    place.addEventListener("mouseover", (event) => this.tell(event.target));
    place.addEventListener("focusin", (event) => this.tell(event.target));
    place.addEventListener("keydown", (event) => this.press(event));
  }

  /* A node for each context that has something of the figure, with its children. Contexts that the answer left out count in
   * the total of those above them. Wall times of spans that are open side by side do not add up, so own times do that. */
  static nodes(moment, figure, changed) {
    const children = moment.children(), order = [], made = new Map();
    const pending = [...(children.get(null) || [])];
    while (pending.length) {
      const context = pending.pop();
      order.push(context);
      for (const child of children.get(context) || []) pending.push(child);
    }
    for (const context of order.reverse()) {
      const below = (children.get(context) || []).map((child) => made.get(child)).filter((node) => node.value > 0);
      const sum = below.reduce((all, node) => all + node.value, moment.own_of(context, figure));
      const value = figure === WALL ? sum : Math.max(sum, moment.total_of(context, figure));
      below.sort((a, b) => b.value - a.value);
      made.set(context, { name: titleOf(context), value, context, children: below,
        delta: changed ? changed.total_of(context, figure) : 0 });
    }
    const roots = (children.get(null) || []).map((context) => made.get(context)).filter((node) => node.value > 0);
    if (roots.length === 1) return roots[0];
    return { name: "(all)", value: roots.reduce((all, node) => all + node.value, 0), context: null, children: roots, delta: 0 };
  }

  /* Returns whether there is a picture. */
  draw({ moment, changed, figure, icicle, found }) {
    const focus = this.place.contains(document.activeElement) ? document.activeElement.__data__.data.context : undefined;
    const root = Flame.nodes(moment, figure, changed);
    this.show = { figure, changed, all: root.value };
    this.place.replaceChildren();
    if (!root.value) {
      d3.select(this.place).datum(null);
      this.place.textContent = "No span has any " + FIGURES[figure].title + ".";
      return false;
    }
    const colour = ({ data }) => {
      if (found && data.context && found.has(data.context)) return "#e6007e";
      if (!changed) return "hsl(" + hueOf(data.context ? nameOf(data.context) : "") + " 65% 72%)";
      const part = Math.min(1, Math.abs(data.delta) / Math.max(1, data.value, Math.abs(data.delta)));
      return "hsl(" + (data.delta > 0 ? 0 : 215) + " " + (data.delta ? 85 : 0) + "% " + (92 - 32 * part) + "%)";
    };
    this.colour = colour;
    const data = d3.hierarchy(root);
    this.chart = flamegraph.default().height((data.height + 1) * FRAME_HEIGHT).width(this.place.clientWidth).cellHeight(FRAME_HEIGHT).inverted(icicle).minFrameSize(0.5)
      .transitionDuration(0).setColorMapper(colour).label(() => "")
      .onClick((node) => { this.zoomed = node.parent ? node.data.context : null; this.choose(this.zoomed); this.mark(node.data.context); });
    d3.select(this.place).datum(root).call(this.chart);
    const zoomed = this.zoomed && this.find(this.zoomed);
    if (zoomed && zoomed.parent) this.chart.zoomTo(zoomed);
    this.settle();
    this.mark(focus, focus !== undefined);
    return true;
  }

  /* The library shows new frames by transitions, which would be seen at each refresh. */
  settle() {
    d3.select(this.place).selectAll("*").interrupt();
    for (const frame of this.place.querySelectorAll("g.frame")) {
      const label = frame.querySelector("foreignObject");
      frame.querySelector("rect").setAttribute("width", label.getAttribute("width"));
      label.firstChild.textContent = frame.__data__.data.name;
    }
  }

  find(context) {
    return d3.select(this.place).datum().descendants().find((node) => node.data.context === context);
  }

  /* One frame at a time can be reached with Tab. Arrow keys lead to the others. */
  mark(context, focus) {
    const frames = [...this.place.querySelectorAll("g.frame")];
    if (!frames.length) return;
    const chosen = frames.find((frame) => frame.__data__.data.context === context) || frames[0];
    for (const frame of frames) {
      frame.setAttribute("tabindex", frame === chosen ? 0 : -1);
      frame.setAttribute("role", "treeitem");
      frame.setAttribute("aria-label", this.describe(frame.__data__));
    }
    if (focus) chosen.focus({ preventScroll: true });
  }

  describe({ data }) {
    const { figure, changed, all } = this.show, show = FIGURES[figure].show;
    return [(data.context ? pathOf(data.context).map(titleOf).join(" > ") : data.name) + ": " + show(data.value),
      percent(data.value / all),
      "own " + show(data.value - data.children.reduce((sum, child) => sum + child.value, 0)),
      changed && "change " + signed(data.delta, show),
      data.context && data.context.place].filter(Boolean).join(" · ");
  }

  tell(target) {
    const frame = target.closest && target.closest("g.frame");
    if (frame) this.details.textContent = this.describe(frame.__data__);
  }

  press(event) {
    const frame = event.target.closest("g.frame");
    if (!frame) return;
    const node = frame.__data__, siblings = node.parent ? node.parent.children.filter((child) => child.value > 0) : [node];
    const up = this.chart.inverted() ? "ArrowDown" : "ArrowUp", down = this.chart.inverted() ? "ArrowUp" : "ArrowDown";
    const to = event.key === up ? node.children && node.children[0] : event.key === down ? node.parent
      : event.key === "ArrowRight" ? siblings[siblings.indexOf(node) + 1]
      : event.key === "ArrowLeft" ? siblings[siblings.indexOf(node) - 1] : null;
    if (event.key === "Enter" || event.key === " ") this.chart.zoomTo(node);
    else if (event.key === "Escape") this.chart.resetZoom();
    else if (!to) return;
    event.preventDefault();
    if (to) return this.mark(to.data.context, true);
    this.zoomed = event.key === "Escape" || !node.parent ? null : node.data.context;
    this.choose(this.zoomed);
    this.mark(node.data.context, true);
  }
}
