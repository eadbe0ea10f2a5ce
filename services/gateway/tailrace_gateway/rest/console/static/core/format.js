// Numbers, sizes, times and ages as people read them. What is not known is a dash, never a zero.
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
export const UNKNOWN = "–";

export function count(value) {
  return value === null || value === undefined ? UNKNOWN : value.toLocaleString("en");
}

export function bytes(value) {
  if (value === null || value === undefined) return UNKNOWN;
  let at = 0;
  let rest = value;
  while (rest >= 1024 && at < UNITS.length - 1) {
    rest /= 1024;
    at++;
  }
  return `${rest.toFixed(at ? 1 : 0)} ${UNITS[at]}`;
}

export function rate(value) {
  if (value === null || value === undefined) return UNKNOWN;
  return `${value < 10 ? Math.round(value * 10) / 10 : count(Math.round(value))}/s`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString("en-GB");
}

export function moment(ms) {
  if (ms === null || ms === undefined || ms < 0) return UNKNOWN;
  return new Date(ms).toISOString().replace("T", " ").replace("Z", "");
}

export function counted(number, one, many) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function percent(part, whole) {
  return whole ? `${Math.round((part * 100) / whole)} %` : UNKNOWN;
}

// Words of a shell: in single quotes where a shell would see more than the word.
export function shell(...words) {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${String(word).replaceAll("'", "'\\''")}'`)).join(" ");
}
