// Gives partitions back to their preferred leaders, the first of their replicas (ElectLeaders).
import { html } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog } from "../../core/dialog.js";
import { counted } from "../../core/format.js";
import { ask, pathOf, verbOf } from "../../core/rest.js";

const NAMED_MAX = 3;

export function ElectLeaders({ row, onClose }) {
  const path = verbOf(pathOf("leaders"), "elect");
  const body = { election_type: "PREFERRED" };
  async function act() {
    const { data } = await ask(path, { method: "POST", body });
    const refused = data.filter((one) => one.error_code !== null);
    const elected = data.length - refused.length;
    const done = data.length ? `${counted(elected, "partition is", "partitions are")} given back to ${elected === 1 ? "its preferred leader" : "their preferred leaders"}.` : "No election was needed.";
    if (!refused.length) return done;
    const why = refused.slice(0, NAMED_MAX).map((one) => `${one.topic_name}-${one.partition_id}: ${one.message}`).join(" ");
    throw new Error(`${done} ${counted(refused.length, "is", "are")} not: ${why}${refused.length > NAMED_MAX ? " …" : ""}`);
  }
  return html`<${ActionDialog} title="Elect preferred leaders" verb="Elect" twins=${[["REST", curl("POST", path, body)], ["CLI", "tailrace elect-leaders"]]} act=${act} onClose=${onClose}>
    <p>The preferred leader of a partition is the first of its replicas. ${row && `${counted(row.count, "partition is", "partitions are")} led by another one${row.count ? `: ${row.names.join(", ")}${row.count > row.names.length ? " …" : ""}` : ""}.`}</p>
    <p>Clients go on with the new leaders by themselves.</p>
  </${ActionDialog}>`;
}
