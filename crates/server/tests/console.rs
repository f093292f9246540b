//! Every page and form × every role × no session, each with a row here, and what keeps a session the browser's own: the cookie, the form's token, the origin.

#![cfg(test)]

#[path = "../../cli/tests/server/client.rs"]
mod client;
mod running;

use client::Answer;
use running::Running;
use serde_json::{Value, json};

const ROLES: [&str; 5] = ["reader", "writer", "operator", "auditor", "admin"];
const DRAFT: &str =
    r#"{"robotId":"r","module":"m","source":"s","type":"signal","state":"final","payload":{}}"#;

/// A browser that is signed in.
struct Browser<'s> {
    server: &'s Running,
    cookie: String,
}

impl<'s> Browser<'s> {
    fn sign_in(server: &'s Running, token: &str) -> Result<Self, Answer> {
        let answer = server.form("/sign-in", None, &format!("token={token}"), true);
        match answer.status {
            303 => {
                let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
                Ok(Browser { server, cookie })
            }
            _ => Err(answer),
        }
    }

    fn get(&self, path: &str) -> Answer {
        self.server.page(path, Some(&self.cookie))
    }

    fn post(&self, path: &str, body: &str, is_own: bool) -> Answer {
        self.server.form(path, Some(&self.cookie), body, is_own)
    }

    fn form_token(&self) -> String {
        let page = self.get("/access").text();
        page.split("name=\"form\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    }
}

#[test]
fn every_page_serves_only_its_roles() {
    let server = Running::start();
    let tokens = ROLES.map(|role| server.key("own", role));
    let other = server.key("other", "operator");
    let appended = server.post("/v1/entries", &tokens[1], DRAFT).json();
    let entry = appended["appended"][0]["id"].as_str().unwrap().to_owned();
    let named = format!("/ledger/{entry}");
    // With the status of a reader; an admin reads no evidence, and sees who may do what.
    let pages = [
        ("/inbox", 200),
        ("/inbox?for=me&robot=r", 200),
        ("/inbox?for=everyone", 400),
        ("/inbox/nothing", 404),
        ("/inbox/several", 400),
        ("/inbox/several?ids=nothing", 404),
        ("/inbox/several?ids=a,,b", 400),
        ("/robots", 200),
        ("/robots/r", 200),
        ("/robots/none", 404),
        ("/executions", 200),
        ("/executions/r/none", 404),
        ("/executions/r/none?replay=1", 404),
        ("/executions/r/none?replay=2", 400),
        ("/runs", 200),
        ("/runs?status=denied", 200),
        ("/runs?status=held", 200),
        ("/runs?status=lost", 400),
        ("/runs/none", 404),
        ("/runs/none/output", 404),
        ("/runs/none/output?after=x", 400),
        ("/runs/compare", 404),
        ("/runs/compare?a=none&b=none", 404),
        ("/ledger", 200),
        (named.as_str(), 200),
        ("/ledger/none", 404),
        ("/policy", 200),
        ("/policy?minConfidence=0.9", 200),
        ("/policy?minConfidence=x", 400),
        ("/usage", 200),
        ("/usage?by=day", 200),
        ("/usage?from=2026-01-01&to=2026-01-31", 200),
        ("/usage?from=x", 400),
        ("/search", 200),
        ("/search?q=r", 200),
        // A field with nothing but spaces in it is empty.
        ("/search?q=+", 200),
        ("/ledger?robot=+&type=%20%20", 200),
        ("/runs?status=+&agent=+", 200),
        ("/ledger?robot=&type=signal", 200),
        ("/ledger?nonsense=1", 400),
    ];
    let targets = pages.iter().map(|(path, _)| ("get", *path));
    let forms = FORMS.iter().map(|(path, ..)| ("post", *path));
    let apart = [("get", "/"), ("get", "/access"), ("post", "/sign-out")];
    let public = PUBLIC.iter().map(|(method, path, ..)| (*method, *path));
    assert_each_has_a_row(targets.chain(forms).chain(public).chain(apart).collect());
    for (role, token) in ROLES.iter().zip(&tokens) {
        let browser = Browser::sign_in(&server, token).unwrap();
        for (path, status) in pages {
            let answer = browser.get(path);
            let expected = if *role == "admin" { 403 } else { status };
            assert_eq!(answer.status, expected, "{role} {path}: {answer:?}");
            assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
            let policy = answer.header("content-security-policy").unwrap();
            assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        }
        let token = browser.form_token();
        for (path, body, status, roles) in FORMS {
            let answer = browser.post(path, &format!("form={token}&{body}"), true);
            let expected = if roles.contains(role) { status } else { 403 };
            assert_eq!(answer.status, expected, "{role} {path}: {answer:?}");
            assert_eq!(browser.post(path, body, true).status, 403, "{role} {path} without the form's token");
        }
        assert_eq!(browser.get("/access").status, 200, "{role}");
        assert_eq!(
            browser.get("/access").text().contains("API keys"),
            matches!(*role, "auditor" | "admin"),
            "{role}"
        );
        let start = browser.get("/");
        assert_eq!(
            (start.status, start.header("location")),
            (303, Some(if *role == "admin" { "/access" } else { "/inbox" }))
        );
    }
    let stranger = Browser::sign_in(&server, &other).unwrap();
    assert_eq!(stranger.get(&named).status, 404);
    assert_eq!(stranger.get("/robots/r").status, 404);
    assert!(
        !stranger.get("/ledger").text().contains(&entry)
            && !stranger.get("/search?q=r").text().contains("/robots/r")
    );
    for (path, _) in pages {
        let answer = server.page(path, None);
        assert_eq!(answer.status, 303, "{path}");
        assert!(answer.header("location").unwrap().starts_with("/sign-in?next=%2F"), "{answer:?}");
    }
    for (path, body, ..) in FORMS {
        assert_eq!(server.form(path, None, body, true).status, 303, "{path}");
    }
    for (method, path, status) in PUBLIC {
        let answer = match method {
            "get" => server.page(path, None),
            _ => server.form(path, None, "", true),
        };
        assert_eq!(answer.status, status, "{path}: {answer:?}");
    }
}

/// Forms, with what those of these roles are answered.
const FORMS: [(&str, &str, u16, &[&str]); 6] = [
    ("/inbox/nothing/question", "decision=approve&keyId=k", 404, &["writer", "operator"]),
    ("/inbox/nothing", "signed=%7B%7D", 400, &["writer", "operator"]),
    ("/runs/nothing/undo", "", 404, &["operator"]),
    ("/sessions/nothing/end", "", 404, &["admin"]),
    ("/webhooks/nothing/enable", "", 404, &["admin"]),
    ("/webhooks/nothing/delete", "", 404, &["admin"]),
];
/// What needs no session.
const PUBLIC: [(&str, &str, u16); 8] = [
    ("get", "/assets/none", 404),
    ("get", "/favicon.ico", 303),
    ("get", "/verify.html", 200),
    ("get", "/sign-in", 200),
    ("get", "/enrol", 200),
    ("post", "/sign-in", 403),
    ("post", "/sign-in/question", 403),
    ("post", "/sign-in/passkey", 400),
];

/// Each route of the console is the nearest one to a target that is tried.
fn assert_each_has_a_row(tried: Vec<(&str, &str)>) {
    let routes: Vec<_> = crealeph_server::console_routes().collect();
    let fits = |pattern: &str, path: &str| {
        let is_same = |(pattern, part): (&str, &str)| pattern.starts_with('{') || pattern == part;
        pattern.split('/').count() == path.split('/').count()
            && pattern.split('/').zip(path.split('/')).all(is_same)
    };
    let nearest = |(method, target): &(&str, &str)| {
        let path = target.split('?').next().unwrap();
        let fitting = routes.iter().filter(|(known, pattern)| known == method && fits(pattern, path));
        fitting.min_by_key(|(_, pattern)| pattern.matches('{').count()).copied()
    };
    let covered: Vec<_> = tried.iter().filter_map(nearest).collect();
    let missing: Vec<_> = routes.iter().filter(|route| !covered.contains(route)).collect();
    assert!(missing.is_empty(), "these have no row here: {missing:?}");
}

#[test]
fn a_session_is_of_one_browser_and_its_forms_come_from_its_own_pages() {
    let server = Running::start();
    let key = server.key("own", "reader");
    let browser = Browser::sign_in(&server, &key).unwrap();
    // A cookie reads the API too, and changes nothing through it.
    assert_eq!(browser.get("/v1/robots").status, 200);
    let posted = server.request_with(
        "POST",
        "/v1/entries",
        &[("cookie", &browser.cookie), ("content-type", "application/json")],
        DRAFT,
    );
    assert_eq!(posted.status, 401, "{posted:?}");
    // The token of a session is no API key, and an API key no session.
    let session = browser.cookie.split_once('=').unwrap().1.to_owned();
    assert_eq!(server.get("/v1/robots", &session).status, 401);
    let name = browser.cookie.split_once('=').unwrap().0;
    assert_eq!(server.page("/robots", Some(&format!("{name}={key}"))).status, 303);
    // Forms: of this session, from this server.
    let token = browser.form_token();
    for (body, is_own) in
        [("form=x".to_owned(), true), (String::new(), true), (format!("form={token}"), false)]
    {
        let answer = browser.post("/sign-out", &body, is_own);
        assert_eq!(answer.status, 403, "{body}: {answer:?}");
    }
    let elsewhere = server.request_with(
        "POST",
        "/sign-out",
        &[
            ("cookie", &browser.cookie),
            ("origin", "https://evil.example"),
            ("content-type", "application/x-www-form-urlencoded"),
        ],
        &format!("form={token}"),
    );
    assert_eq!(elsewhere.status, 403);
    assert_eq!(browser.get("/robots").status, 200);
    let left = browser.post("/sign-out", &format!("form={token}"), true);
    assert_eq!((left.status, left.header("location")), (303, Some("/sign-in")));
    assert!(left.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(browser.get("/robots").status, 303);
}

#[test]
fn a_link_is_used_once_and_only_by_its_button() {
    let server = Running::start();
    let link = server.link("own", "operator");
    let page = server.page(&format!("/sign-in?code={link}&next=%2Fledger"), None);
    assert!(page.status == 200 && page.text().contains("as <strong>operator</strong>"), "{page:?}");
    // Looking at it does not use it.
    let browser = Browser::sign_in(&server, &link).map_err(|answer| answer.status).unwrap();
    assert_eq!(browser.get("/robots").status, 200);
    let again = Browser::sign_in(&server, &link).err().unwrap();
    assert!(again.status == 403 && again.text().contains("this link was already used"), "{again:?}");
    let unknown = Browser::sign_in(&server, "crealeph_x.y.z").err().unwrap();
    assert_eq!((unknown.status, unknown.text().contains("crealeph_x.y.z")), (403, false));
    for (next, place) in [
        ("%2Fledger%3Frobot%3Dr", "/ledger?robot=r"),
        ("%2F%2Fevil.example", "/"),
        ("https%3A%2F%2Fevil.example", "/"),
    ] {
        let link = server.link("own", "reader");
        let entered = server.form("/sign-in", None, &format!("token={link}&next={next}"), true);
        assert_eq!((entered.status, entered.header("location")), (303, Some(place)));
    }
    assert_eq!(
        server.form("/sign-in", None, &format!("token={link}"), false).status,
        403,
        "from another site"
    );
}

#[test]
fn a_long_address_leads_to_the_sign_in_page_too() {
    let server = Running::start();
    let longest = format!("/search?q={}", "x".repeat(1_024 - "/search?q=".len()));
    for (address, is_kept) in [(longest.clone(), true), (format!("{longest}x"), false)] {
        let answer = server.page(&address, None);
        let target = answer.header("location").unwrap().to_owned();
        assert_eq!((answer.status, target.contains("?next=")), (303, is_kept), "{target}");
        let page = server.page(&target, None);
        assert_eq!((page.status, page.text().contains("name=\"next\"")), (200, is_kept), "{target}");
    }
}

#[test]
fn a_session_ends_with_the_key_that_opened_it() {
    let server = Running::start();
    let (key, admin) = (server.key("own", "reader"), server.key("own", "admin"));
    let browser = Browser::sign_in(&server, &key).unwrap();
    assert_eq!(browser.get("/robots").status, 200);
    let id = key.split('.').nth(1).unwrap();
    assert_eq!(server.request("DELETE", &format!("/v1/keys/{id}"), Some(&admin), None).status, 200);
    assert_eq!(browser.get("/robots").status, 303);
    assert_eq!(browser.get("/v1/robots").status, 401);
}

#[test]
fn what_others_wrote_is_shown_as_text() {
    let server = Running::start();
    let writer = server.key("own", "writer");
    let hostile = "<script>alert(1)</script>\\u202e\\u001b[2J";
    let entry = format!(
        r#"{{"robotId":"r<b>","module":"<i>m</i>","source":"s","type":"<img src=x>","state":"\"><script>","payload":{{"text":"{hostile}","long":"{}"}}}}"#,
        "x".repeat(1 << 20)
    );
    let appended = server.post("/v1/entries", &writer, &entry);
    assert_eq!(appended.status, 200, "{appended:?}");
    let id = appended.json()["appended"][0]["id"].as_str().unwrap().to_owned();
    let browser = Browser::sign_in(&server, &writer).unwrap();
    for path in [
        "/ledger".to_owned(),
        format!("/ledger/{id}"),
        "/robots".to_owned(),
        "/robots/r%3Cb%3E".to_owned(),
        "/search?q=%3Cscript%3E".to_owned(),
    ] {
        let answer = browser.get(&path);
        let page = answer.text();
        assert_eq!(answer.status, 200, "{path}");
        for markup in ["<script>", "<img", "<i>", "<b>", "\u{202e}", "\u{1b}"] {
            assert!(!page.contains(markup), "{path} has {markup:?}");
        }
        assert!(page.len() < 200_000, "{path} is {} bytes", page.len());
    }
}

#[test]
fn the_verifier_is_a_download_for_anyone() {
    let server = Running::start();
    let answer = server.page("/verify.html", None);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(answer.header("content-disposition"), Some("attachment; filename=\"verify.html\""));
    let committed = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/verify.html");
    assert_eq!(answer.text(), std::fs::read_to_string(committed).unwrap());
}

#[test]
fn a_browser_gets_a_page_where_there_is_none_and_a_program_a_problem() {
    let server = Running::start();
    let navigation = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let page = server.request_with("GET", "/work", &navigation, "");
    assert_eq!((page.status, page.header("content-type")), (404, Some("text/html; charset=utf-8")));
    let id = page.header("x-request-id").unwrap().to_owned();
    let text = page.text();
    assert!(
        text.contains("there is no such path") && text.contains(&id) && text.contains("href=\"/\""),
        "{text}"
    );
    let problem = server.page("/work", None);
    assert_eq!((problem.status, problem.header("content-type")), (404, Some("application/problem+json")));
}

#[test]
fn a_refusal_says_what_to_do_and_everything_that_is_wrong() {
    let server = Running::start();
    let browser = Browser::sign_in(&server, &server.key("own", "operator")).unwrap();
    let token = browser.form_token();
    let unsigned = format!("form={token}&signed=%7B%22statement%22%3A1%2C%22%3Cb%3E%22%3A2%7D");
    for (answer, status, said) in [
        (browser.get("/inbox/nothing"), 404, "find it in its list"),
        (browser.get("/inbox?for=everyone"), 400, "correct it in the address"),
        (browser.post("/inbox/nothing", "form=x", true), 403, "open the page on this server again"),
        (browser.post("/inbox/nothing", &unsigned, true), 400, "reload the page that sent it"),
        (browser.post("/inbox/nothing", &unsigned, true), 400, "<li>/signature: "),
        (browser.post("/inbox/nothing", &unsigned, true), 400, "&lt;b&gt;"),
    ] {
        let (id, text) = (answer.header("x-request-id").unwrap().to_owned(), answer.text());
        assert_eq!(answer.status, status, "{text}");
        assert!(text.contains(said) && text.contains(&id) && !text.contains("<b>"), "{said}: {text}");
    }
}

#[test]
fn signing_in_does_not_tell_which_tenants_there_are() {
    let server = Running::start();
    let key = server.key("own", "reader");
    let host = format!("localhost:{}", server.0.port());
    let send = |target: &str, body: &str| {
        let length = body.len();
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n"
        );
        server.send(format!("{head}{body}").as_bytes())
    };
    let question = |body: &str| {
        let answer = send("/sign-in/question", body);
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        answer.json()["statement"].clone()
    };
    // The only tenant need not be named, neither on the page nor by it.
    let page = server.page("/sign-in", None).text();
    assert!(page.contains("Sign in with a passkey") && !page.contains("name=\"tenant\""), "{page}");
    assert_eq!(question("tenant=")["tenantId"], "own");

    let members = |statement: &Value| statement.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let (own, other) = (question("tenant=own"), question("tenant=nobodys"));
    assert_eq!((members(&own), &other["tenantId"]), (members(&other), &json!("nobodys")));
    for (tenant, asked) in [("own", &own), ("nobodys", &other)] {
        let again = question(&format!("tenant={tenant}"));
        assert_eq!(again["logOrigin"], asked["logOrigin"], "the same each time");
        assert_eq!(asked["logOrigin"].as_str().unwrap().len(), own["logOrigin"].as_str().unwrap().len());
    }
    assert_ne!(own["logOrigin"], other["logOrigin"]);

    let passkey = json!({ "credentialId": "AA", "authenticatorData": "AA", "clientDataJson": "AA" });
    let with_passkey = |statement: &Value, has_passkey: bool| {
        let mut signed = json!({ "statement": statement, "proof": "passkey", "signature": "AA" });
        if has_passkey {
            signed["passkey"] = passkey.clone();
        }
        let signed: String =
            signed.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
        send("/sign-in/passkey", &format!("signed={signed}"))
    };
    let mut old = own.clone();
    old["time"] = json!("2020-01-02T03:04:05.000Z");
    let mut elsewhere = own.clone();
    elsewhere["logOrigin"] = other["logOrigin"].clone();
    let wrong_key = |start: &str| send("/sign-in", &format!("token={start}.{}", "A".repeat(43)));
    assert!(key.starts_with("crealeph_b3du."), "{key}");
    let key_id = key.split('.').nth(1).unwrap();
    let answers = [
        with_passkey(&own, true),
        with_passkey(&other, true),
        with_passkey(&old, true),
        with_passkey(&elsewhere, true),
        with_passkey(&own, false),
        with_passkey(&other, false),
        // `own` and `nobodys`.
        wrong_key(&format!("crealeph_b3du.{key_id}")),
        wrong_key(&format!("crealeph_bm9ib2R5cw.{key_id}")),
    ];
    // The same words, each with the id of its own request.
    let words = |answer: &Answer| {
        let id = answer.header("x-request-id").unwrap().to_owned();
        let text = answer.text();
        assert!(text.contains(&format!("Request <code>{id}</code>")), "{text}");
        text.replace(&id, "ID")
    };
    for answer in &answers {
        assert_eq!((answer.status, words(answer)), (403, words(&answers[0])));
    }
    assert!(answers[0].text().contains("this link, key or passkey cannot sign in here"));
}

#[test]
fn webhooks_are_seen_by_those_who_see_grants_and_deleted_by_admins() {
    let server = Running::start();
    let tokens = ["reader", "auditor", "admin"].map(|role| server.key("own", role));
    let request = r#"{"url":"https://hook.invalid/","events":["signal"],"label":"to <b>chat</b>"}"#;
    let created = server.post("/v1/webhooks", &tokens[2], request).json();
    let id = created["webhookId"].as_str().unwrap_or_else(|| panic!("{created}"));
    let [reader, auditor, admin] = tokens.each_ref().map(|token| Browser::sign_in(&server, token).unwrap());
    let (path, url) = (format!("/webhooks/{id}/delete"), "https://hook.invalid/");
    for (browser, is_listed, is_offered) in
        [(&reader, false, false), (&auditor, true, false), (&admin, true, true)]
    {
        let page = browser.get("/access").text();
        assert_eq!((page.contains(url), page.contains(&path)), (is_listed, is_offered), "{page}");
        assert!(!page.contains("<b>chat") && !page.contains("formaction"), "it was not disabled: {page}");
    }
    let form = format!("form={}&reason=no+longer+used", admin.form_token());
    let deleted = admin.post(&path, &form, true);
    assert_eq!((deleted.status, deleted.header("location")), (303, Some("/access#webhooks")), "{deleted:?}");
    let page = admin.get("/access").text();
    assert!(page.contains(">deleted<") && !page.contains(&path), "{page}");
    let listed = server.get("/v1/webhooks", &tokens[1]).json();
    assert_eq!(listed["webhooks"][0]["state"], "deleted", "{listed}");
}

#[test]
fn a_search_finds_ids_by_index_and_says_what_it_did_not_show() {
    let server = Running::start();
    let browser = Browser::sign_in(&server, &server.key("own", "writer")).unwrap();
    let run = |number: usize| format!("0190a6f0-7c2e-7d31-8a4e-{number:012x}");
    let receipt = |number| {
        json!({
            "robotId": "r", "module": "work", "source": "coder", "type": "run_receipt", "state": "succeeded",
            "key": format!("run_receipt:{}", run(number)), "payload": {},
        })
    };
    server.append_as("own", &(0..250).map(receipt).collect::<Vec<_>>());
    let found = |words: &str| browser.get(&format!("/search?q={words}")).text();
    let link = |number| format!("href=\"/runs/{}\"", run(number));
    // The oldest is not one of the newest 200, which are looked at for words.
    for words in [run(0), run(0).to_uppercase()] {
        let page = found(&words);
        assert!(page.contains(&link(0)) && page.matches("<td>run</td>").count() == 1, "{page}");
    }
    let page = found("0190a6f0");
    assert_eq!(page.matches("<td>run</td>").count(), 10);
    assert!(page.contains("Of runs, the first 10 are shown."), "{page}");
    // An agent's name in the window; all words must be there.
    assert!(found("CODER").contains(&link(249)));
    let nothing = found("coder+nonsense");
    assert!(!nothing.contains("/runs/0190") && nothing.contains("<code>coder nonsense</code>"), "{nothing}");
    assert!(nothing.contains("Searched: the ids of entries") && nothing.contains("Try the first eight"));
    assert!(nothing.contains("Of runs, the newest 200 were looked at"), "{nothing}");
    // A page of runs that is large ends earlier, and it says where.
    let large = |number: usize| {
        let mut entry = receipt(number);
        entry["payload"] = json!({ "long": "x".repeat(300_000) });
        entry
    };
    for start in (250..270).step_by(5) {
        server.append_as("own", &(start..start + 5).map(large).collect::<Vec<_>>());
    }
    let nothing = found("nonsense");
    assert!(nothing.contains("Of runs, the newest 16 were looked at"), "{nothing}");
    // Another tenant finds nothing of it.
    let stranger = Browser::sign_in(&server, &server.key("other", "operator")).unwrap();
    assert!(!stranger.get(&format!("/search?q={}", run(0))).text().contains("/runs/0190"));
}

/// Where the list of a page continues.
fn older(page: &str) -> Option<String> {
    let link = page.split("rel=\"next\" href=\"").nth(1)?;
    Some(link.split('"').next()?.replace("&amp;", "&"))
}

#[test]
fn an_execution_is_listed_once_in_the_state_that_it_is_in_now() {
    let server = Running::start();
    let browser = Browser::sign_in(&server, &server.key("own", "writer")).unwrap();
    let list = |filter: &str| browser.get(&format!("/executions{filter}")).text();
    assert!(list("").contains("No execution is recorded here"));
    let matches = list("?robot=r");
    assert!(matches.contains("No execution matches this filter") && !matches.contains("crealeph build"));
    let signal = server.append_reported("own", &serde_json::from_str(DRAFT).unwrap());
    let event = |execution: &str, state: &str, attempt: u64| {
        let mut payload = json!({
            "executionId": execution, "workflowVersion": "1", "agentVersion": "1", "executionContractVersion": "v1",
            "attempt": attempt, "target": "t", "action": "a", "snapshotAt": signal.1, "coherenceStatus": "coherent",
            "dryRun": state == "succeeded",
        });
        if state == "failed" {
            payload["error"] = json!({ "code": "X", "message": "x", "retryable": true });
        }
        json!({
            "robotId": "r", "module": "agent-builder", "source": "agent-builder", "type": "execution_event", "state": state,
            "payload": payload, "lineage": { "dependsOnLedgerIds": [signal.0] },
        })
    };
    server.append_as("own", &[event("retried", "failed", 1), event("broken", "failed", 1)]);
    let others: Vec<String> = (0..60).map(|number| format!("other-{number}")).collect();
    server.append_as("own", &others.iter().map(|id| event(id, "planned", 1)).collect::<Vec<_>>());
    // A retry that succeeds is two events of one transaction.
    server.append_as("own", &[event("retried", "running", 2), event("retried", "succeeded", 2)]);

    let ids = |page: &str| -> Vec<String> {
        let rows = page.split("<tr data-row>").skip(1);
        rows.map(|row| row.split("title=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&list("?state=failed")), ["broken"]);
    assert_eq!(ids(&list("?state=succeeded&robot=r")), ["retried"]);
    assert!(list("?state=running").contains("No execution matches this filter"));
    // Page by page each has one row, and the one that was retried is where its newest event is.
    let first = list("");
    assert_eq!((ids(&first).len(), ids(&first)[0].as_str()), (50, "retried"), "{first}");
    let second = browser.get(&older(&first).unwrap()).text();
    assert_eq!(older(&second), None, "{second}");
    let all = [ids(&first), ids(&second)].concat();
    let mut expected: Vec<String> = others.iter().rev().cloned().collect();
    expected.insert(0, "retried".to_owned());
    expected.push("broken".to_owned());
    assert_eq!(all, expected);
    // The API lists events, as it says.
    let events = server.get("/v1/executions?state=failed", &server.key("own", "reader")).json();
    assert_eq!(events["entries"].as_array().unwrap().len(), 2, "{events}");

    // What is too long for a page is cut, with a note and a link to all of it.
    let artifact = json!({
        "robotId": "r", "module": "builder", "source": "agent", "type": "copy", "state": "planned",
        "payload": { "text": "x".repeat(20 << 10) }, "lineage": { "dependsOnLedgerIds": [signal.0], "executionId": "broken" },
    });
    let id = server.append_reported("own", &artifact).0;
    let page = browser.get(&format!("/ledger/{id}")).text();
    assert!(page.contains("href=\"/executions/r/broken\""), "{page}");
    // An execution without an event has no page but its entries.
    let mut trace = artifact;
    trace["lineage"]["executionId"] = json!("eventless");
    let trace = server.append_reported("own", &trace).0;
    let page = browser.get(&format!("/ledger/{trace}")).text();
    let target = "/ledger?execution=eventless";
    assert!(page.contains(&format!("href=\"{target}\"")) && !page.contains("\"/executions/r/"), "{page}");
    assert!(browser.get(target).text().contains(&trace));

    let page = browser.get("/executions/r/broken").text();
    let note = format!("4,107 more bytes are not shown. <a href=\"/v1/entries/{id}\">Show all of it</a>");
    assert!(page.contains(&note), "{page}");
}

#[test]
fn older_runs_are_a_page_away() {
    let server = Running::start();
    let browser = Browser::sign_in(&server, &server.key("own", "reader")).unwrap();
    let receipt = |number: usize| {
        json!({
            "robotId": "r", "module": "work", "source": "coder", "type": "run_receipt", "state": "succeeded",
            "key": format!("run_receipt:0190a6f0-7c2e-7d31-8a4e-{number:012x}"), "payload": {},
        })
    };
    server.append_as("own", &(0..60).map(receipt).collect::<Vec<_>>());
    let first = browser.get("/runs?agent=coder").text();
    let next = older(&first).unwrap();
    assert!(next.contains("agent=coder"), "{next}");
    let second = browser.get(&next).text();
    let rows = |page: &str| page.matches("<tr data-row>").count();
    assert_eq!((rows(&first), rows(&second), older(&second)), (50, 10, None));
    assert!(first.contains("0190a6f0-7c2e-7d31-8a4e-00000000003b") && second.contains("8a4e-000000000000"));
    assert!(browser.get("/runs?agent=nobody").text().contains("No run matches this filter"));
}

#[test]
fn a_restricted_session_finds_its_own_entries_among_many_of_one_moment() {
    let server = Running::start();
    let entry = |robot: &str| json!({ "robotId": robot, "module": "m", "source": "s", "type": "signal", "state": "final", "payload": {} });
    let fill = |count: usize| server.append_as("own", &vec![entry("a"); count]);
    fill(40);
    let (found, _) = server.append_reported("own", &entry("b"));
    fill(600);
    let (missed, _) = server.append_reported("own", &entry("c"));
    let start = found.get(..6).unwrap();
    assert!(missed.starts_with(start), "{found} {missed}");
    let search = |robot: &str| {
        let browser = Browser::sign_in(&server, &server.key_for("own", "reader", Some(robot))).unwrap();
        browser.get(&format!("/search?q={start}")).text()
    };
    let page = search("b");
    assert!(
        page.contains(&format!("href=\"/ledger/{found}\"")) && page.matches("<td>entry</td>").count() == 1,
        "{page}"
    );
    let page = search("c");
    assert!(!page.contains(&missed), "{page}");
    assert!(page.contains("Of the ids of entries with this start, the first 506 were looked at."), "{page}");
}

#[test]
fn usage_has_a_period() {
    let server = Running::start();
    let browser = Browser::sign_in(&server, &server.key("own", "reader")).unwrap();
    assert!(browser.get("/usage").text().contains("No run and no execution is recorded."));
    let receipt = json!({
        "robotId": "r", "module": "work", "source": "coder", "type": "run_receipt", "state": "succeeded",
        "key": "run_receipt:0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f", "payload": {},
    });
    let (_, at) = server.append_reported("own", &receipt);
    let day = at.get(..10).unwrap();
    let page = browser.get(&format!("/usage?by=day&from={day}&to={day}")).text();
    assert!(page.contains(&format!("<th scope=\"row\">{day}</th>")), "{page}");
    assert!(page.contains(&format!("/usage?by=robot&amp;from={day}&amp;to={day}")), "{page}");
    for period in ["from=2999-01-01", "to=2020-01-01"] {
        let page = browser.get(&format!("/usage?{period}")).text();
        assert!(page.contains("No run and no execution was recorded in this period."), "{page}");
    }
}

#[test]
fn a_backtest_moves_only_what_was_entered_and_begins_with_the_newest_decision() {
    let server = Running::configured(
        "[agents.'example@1']\nkind = 'example'\n[tenants.own.robots.q.builder]\nthresholds = { min_lineage_count = 50 }\n",
    );
    let operator = server.key("own", "operator");
    for robot in ["r", "q"] {
        let mut known: Vec<String> = Vec::new();
        for kind in ["signal", "fusion", "idea", "copy", "playbook"] {
            let mut entry = json!({ "robotId": robot, "module": "m", "source": "s", "type": kind, "state": "final", "payload": {} });
            if !known.is_empty() {
                entry["lineage"] = json!({ "dependsOnLedgerIds": known[..known.len().min(2)] });
            }
            known.push(server.append_reported("own", &entry).0);
        }
    }
    let run = |robot: &str, execution: &str| {
        let request = json!({
            "robotId": robot, "objective_type": "landing_plan", "objective_payload": {}, "constraints": {}, "dryRun": true,
            "coherence_policy": { "on_stale": "block", "on_partial": "block" }, "workflowVersion": "w1", "agentVersion": "example@1",
            "attempt": 1, "executionId": execution,
        });
        let answer = server.post("/v1/builder/runs", &operator, &request.to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    run("r", "oldest");
    run("q", "own-rules");
    let browser = Browser::sign_in(&server, &operator).unwrap();
    let backtest = |moved: &str| browser.get(&format!("/policy?{moved}")).text();
    // The robot with rules of its own is not judged by those of the tenant.
    let page = backtest("minConfidence=0.01");
    assert!(page.contains("2 decisions looked at, <strong>0 decisions would be different"), "{page}");
    let page = backtest("minLineageCount=1");
    assert!(
        page.contains("<strong>1 decision would be different") && page.contains("/executions/q/own-rules"),
        "{page}"
    );

    // What cannot be used is said beside the form, which has what was typed.
    for (moved, typed, why) in [
        ("minConfidence=0,6", "value=\"0,6\"", "the parameter <code>minConfidence</code> is not a number"),
        ("minConfidence=7&minLineageCount=3", "value=\"7\"", "these thresholds cannot be used: "),
    ] {
        let answer = browser.get(&format!("/policy?{moved}"));
        let page = answer.text();
        assert_eq!(answer.status, 400, "{page}");
        assert!(page.contains(typed) && page.contains("Backtest</button>"), "{page}");
        assert!(page.contains(&format!("<p class=\"error\" role=\"alert\">{why}")), "{page}");
        assert!(!page.contains("looked at"), "{page}");
    }

    let unreadable = json!({ "robotId": "r", "module": "agent-builder", "source": "agent-builder", "type": "execution_record", "state": "planned", "payload": {} });
    for _ in 0..4 {
        server.append_as("own", &vec![unreadable.clone(); 250]);
    }
    run("r", "newest");
    let page = backtest("minLineageCount=100");
    assert!(page.contains("/executions/r/newest") && !page.contains("/executions/r/oldest"), "{page}");
    assert!(
        page.contains("Evaluated the newest 1,000 decisions, back to <time")
            && !page.contains("the time for a page"),
        "{page}"
    );
    let rest = browser.get(&older(&page).unwrap()).text();
    assert!(rest.contains("/executions/r/oldest") && !rest.contains("/executions/r/newest"), "{rest}");
    assert!(rest.contains("2 decisions looked at") && older(&rest).is_none(), "{rest}");
}
