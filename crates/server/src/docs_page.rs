//! The page at `/docs`, from the table of routes: one HTML document that loads its icon and runs nothing.

use std::fmt::Write as _;

use crealeph_console::asset_url;

use crate::route::{Access, ParameterPlace, Route};
use crate::routes::routes;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
color:#1b1b1b;background:#fff}code{font-family:ui-monospace,monospace;overflow-wrap:anywhere}td{overflow-wrap:anywhere}h2{font-size:1.05rem;margin:2rem 0 .25rem}\
table{border-collapse:collapse;margin:.5rem 0}td,th{text-align:left;padding:.15rem 1rem .15rem 0;vertical-align:top}\
p{margin:.25rem 0}@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}a{color:#8ab4f8}}";

/// The page.
pub(crate) fn page() -> String {
    let icon = asset_url("icon.svg");
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>CreAleph API</title>\
         <link rel=\"icon\" href=\"{icon}\" type=\"image/svg+xml\"><style>{STYLE}</style></head>\
         <body><main><h1>CreAleph API</h1>\
         <p>Send a key with every request: <code>Authorization: Bearer TOKEN</code>. The key names its tenant; \
         <code>crealeph key create</code> creates one. As a document for programs: \
         <a href=\"/openapi.json\">openapi.json</a>.</p>\
         <p>An error is a problem document (RFC 9457) with a stable <code>code</code>.</p>"
    );
    routes().for_each(|route| section(&mut page, route));
    page.push_str("</main></body></html>\n");
    page
}

fn section(page: &mut String, route: &Route) {
    let (method, path) = (route.method.method(), escaped(route.path));
    let roles = match route.access {
        Access::Public => "anyone".to_owned(),
        Access::Key(..) => route.access.roles().join(", "),
    };
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "<h2 id=\"{}\"><code>{method} {path}</code></h2><p>{}.</p><p>Roles: {roles}.</p>",
        route.name,
        escaped(route.summary)
    );
    if let Some(body) = &route.body {
        let _ = write!(page, "<p>Body: {}</p>", escaped(body.about));
    }
    if !route.parameters.is_empty() {
        page.push_str("<table><tbody>");
        for parameter in route.parameters {
            let place = if parameter.place == ParameterPlace::Path { "path" } else { "query" };
            let (name, about) = (parameter.name, escaped(parameter.about));
            let _ = write!(page, "<tr><th><code>{name}</code></th><td>{place}</td><td>{about}</td></tr>");
        }
        page.push_str("</tbody></table>");
    }
    let (status, about) = (route.answer.status.as_u16(), escaped(route.answer.about));
    let problems: Vec<String> = route.problem_statuses().iter().map(ToString::to_string).collect();
    let _ = write!(page, "<p>{status}: {about}. Problems: {}.</p>", problems.join(", "));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
