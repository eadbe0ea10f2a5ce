"use strict";

const CSRF = "X-Tailrace-CSRF";

/** A change by a browser that has logged in says its session's token, as the console does. */
function withToken(request) {
  const cookie = document.cookie.split("; ").find((pair) => pair.startsWith(`${CSRF}=`));
  if (cookie) request.headers[CSRF] = cookie.slice(CSRF.length + 1);
  return request;
}

SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#operations",
  deepLinking: true,
  docExpansion: "none",
  filter: true,
  requestInterceptor: withToken,
  validatorUrl: null,
});
