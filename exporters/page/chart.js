/* The history of a figure, stacked by the spans directly below one context, by uPlot. */
const MAX_BANDS = 10, EVENT_COLOUR = "#d32f2f";
const POWERS_OF_TWO = Array.from({ length: 50 }, (_, i) => 2 ** i);

const fillOf = ({ hue }) => "hsl(" + (hue ?? 0) + " " + (hue === null ? 0 : 65) + "% 68%)";

class Chart {
  constructor(place, choose) {
    Object.assign(this, { place, choose });
  }

  /* What is so far becomes a rate a second. What is not known is 0, and so belongs to "other". */
  static rates(moments, figure, values) {
    if (FIGURES[figure].level) return values.map((value) => value || 0);
    return values.map((value, i) => {
      const passed = i ? moments[i].time - moments[i - 1].time : 0;
      return passed > 0 ? Math.max(0, value - values[i - 1]) / passed || 0 : 0;
    });
  }

  /* The spans with the largest values. The rest of the total goes to "other". */
  static bands(moments, figure, { root, all, below }) {
    const most = (values) => values.reduce((largest, value) => Math.max(largest, value || 0), 0);
    const chosen = [...below].map(([context, values]) => ({ context, values, most: most(values) }))
      .filter((band) => band.most > 0).sort((a, b) => b.most - a.most).slice(0, MAX_BANDS);
    const bands = chosen.map(({ context, values }) => ({ name: titleOf(context), hue: hueOf(nameOf(context)),
      values: Chart.rates(moments, figure, [...values]) }));
    const other = Chart.rates(moments, figure, [...all]).map((value, i) => Math.max(0, bands.reduce((rest, band) => rest - band.values[i], value)));
    if (other.some((value) => value > 0)) bands.push({ name: root.parent ? "own and other" : "other", hue: null, values: other });
    return bands;
  }

  /* An event: at the top, so that it hides no figure. */
  triangle({ ctx, bbox }, x) {
    const size = 6 * devicePixelRatio;
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.save();
    ctx.fillStyle = EVENT_COLOUR;
    ctx.beginPath();
    ctx.moveTo(x - size, bbox.top);
    ctx.lineTo(x + size, bbox.top);
    ctx.lineTo(x, bbox.top + 1.5 * size);
    ctx.fill();
    ctx.restore();
  }

  draw({ moments, figure, series, marked, resident, events, limits }) {
    const bands = Chart.bands(moments, figure, series).reverse(), show = FIGURES[figure].show;
    const text = (value) => value === null || value === undefined ? "" : show(Math.round(value)) + (FIGURES[figure].level ? "" : "/s");
    const sums = bands.map((_, i) => moments.map((_, k) => bands.slice(0, i + 1).reduce((sum, band) => sum + band.values[k], 0)));
    const ink = getComputedStyle(this.place).color, axis = { stroke: ink, grid: { stroke: "#8884", width: 1 } };
    const tops = bands.map((band, i) => ({ label: band.name, stroke: "hsl(" + (band.hue ?? 0) + " " + (band.hue === null ? 0 : 60) + "% 50%)",
      fill: fillOf(band), width: 1, points: { show: moments.length < 3 },
      value: (_, __, ___, k) => k === null ? "" : text(band.values[k]) })).reverse();
    const data = [moments.map((moment) => moment.time), ...sums.slice().reverse()];
    if (resident && figure === IN_USE && moments.every((moment) => moment.resident)) {
      tops.push({ label: "resident", stroke: ink, width: 1, dash: [4, 4], points: { show: false }, value: (_, value) => text(value) });
      data.push(moments.map((moment) => moment.resident));
    }
    const highest = sums.length ? Math.max(...sums.at(-1)) : 0; /* a limit far above would leave no room for the figures */
    for (const { title, bytes: most } of figure === IN_USE ? limits.filter((limit) => limit.bytes <= 3 * highest) : []) {
      tops.push({ label: title, stroke: EVENT_COLOUR, width: 1, dash: [8, 4], points: { show: false }, value: () => show(most) });
      data.push(moments.map(() => most));
    }
    const mark = (chart) => {
      for (const { time } of events) this.triangle(chart, Math.round(chart.valToPos(time, "x", true)));
      for (const { time, dash } of marked) {
        const x = Math.round(chart.valToPos(time, "x", true)), { ctx, bbox } = chart;
        ctx.save();
        ctx.strokeStyle = ink;
        ctx.setLineDash(dash);
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
        ctx.restore();
      }
    };
    this.place.replaceChildren();
    this.bands = bands;
    this.shown = { moments, show, perSecond: FIGURES[figure].level ? "" : "/s", bands: bands.map((band) => ({ ...band, colour: fillOf(band) })) };
    this.chart = new uPlot({
      width: this.place.clientWidth, height: Math.max(220, Math.min(420, window.innerHeight - 260)),
      series: [{}, ...tops],
      axes: [axis, { ...axis, size: 80, ...(show === bytes ? { incrs: POWERS_OF_TWO } : {}), values: (_, values) => values.map(text) }],
      scales: { y: { range: (_, __, most) => [0, most * 1.05 || 1] } },
      cursor: { drag: { x: false, y: false } },
      hooks: { draw: [mark] },
    }, data, this.place);
    this.chart.over.addEventListener("click", () => {
      if (this.chart.cursor.idx !== null && this.chart.cursor.idx !== undefined) this.choose(moments[this.chart.cursor.idx]);
    });
  }
}
