// Users that log in with a password, and ACLs: what each principal may do. Shown where the cluster asks for logins.
import { html } from "../../core/html.js";
import { userName } from "../../core/rights.js";
import { Acls } from "./acls.js";
import { Users } from "./users.js";

function Page({ query }) {
  return html`<h1>Users and ACLs</h1>
    <p class="soft">You are logged in as ${userName()}.</p>
    <${Users} /><${Acls} query=${query} />`;
}

export default { name: "users", title: "Users", parts: () => ["users", "acls", "topics"], View: Page };
