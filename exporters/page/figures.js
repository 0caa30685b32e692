/* Figures as text. */
const digits = { minimumSignificantDigits: 3, maximumSignificantDigits: 3 };
const scaled = (value, units, step) => {
  let i = 0;
  while (value >= step && i < units.length - 1) { value /= step; i++; }
  return (i ? value.toLocaleString("en", digits) : value) + units[i];
};
const bytes = (n) => scaled(n, [" B", " KiB", " MiB", " GiB", " TiB"], 1024);
const count = (n) => n.toLocaleString("en");
const time = (ns) => scaled(ns, [" ns", " µs", " ms", " s"], 1000);
const percent = (part) => (100 * part).toFixed(part < 0.0995 ? 1 : 0) + " %";
/* A difference; figures themselves have no sign. */
const signed = (value, show) => value > 0 ? "+" + show(value) : value < 0 ? "−" + show(-value) : show(0);
