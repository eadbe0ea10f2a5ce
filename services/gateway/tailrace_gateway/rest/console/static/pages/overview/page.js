// The cluster at a glance: problems first, then who is there, what is moved, where the data lies, how much comes in.
import { html } from "../../core/html.js";
import { Age } from "../../core/shell.js";
import { Problems } from "./problems.js";
import { ClusterMap } from "./map.js";
import { Health, LogDirs, Moves } from "./tables.js";
import { Traffic } from "./traffic.js";

function Overview() {
  return html`<h1>Overview</h1>
    <${Age} of=${["status", "transactions"]} />
    <${Problems} />
    <h2>Cluster</h2><${ClusterMap} />
    <h2>Traffic</h2><${Age} of=${["figures"]} /><${Traffic} />
    <h2>Partitions</h2><${Health} />
    <h2>Reassignments</h2><${Moves} />
    <h2>Log directories</h2><${Age} of=${["log-dirs"]} /><${LogDirs} />`;
}

export default { name: "overview", title: "Overview", parts: () => ["figures", "log-dirs"], View: Overview };
