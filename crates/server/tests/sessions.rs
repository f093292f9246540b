//! What a browser meets beside the pages: cookies by how it reached the server, headers, refusals, and the end of sessions.

#![cfg(test)]

#[path = "../../cli/tests/server/client.rs"]
mod client;
mod running;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use client::Answer;
use running::Running;

/// What a browser says when it opens a page.
const OPENS: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

/// A request to a name.
fn to(server: &Running, host: &str, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut head = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    server.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
}

fn signed_in(server: &Running, token: &str, before: Option<&str>) -> String {
    let answer = server.form("/sign-in", before, &format!("token={token}"), true);
    assert_eq!(answer.status, 303, "{answer:?}");
    cookies(&answer)[0].split(';').next().unwrap().to_owned()
}

fn cookies(answer: &Answer) -> Vec<&str> {
    let named = answer.headers.iter().filter(|(name, _)| name == "set-cookie");
    named.map(|(_, value)| value.as_str()).collect()
}

/// Whether a session with this cookie reads pages.
fn is_signed_in(server: &Running, cookie: &str) -> bool {
    server.page("/robots", Some(cookie)).status == 200
}

fn form_token(page: &str) -> &str {
    page.split("name=\"form\" value=\"").nth(1).unwrap().split('"').next().unwrap()
}

fn stream(server: &Running, token: &str) -> BufReader<TcpStream> {
    let mut stream = server.connect();
    let port = server.0.port();
    let request = format!(
        "GET /v1/events HTTP/1.1\r\nHost: localhost:{port}\r\nCookie: crealeph-{port}={token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    read_to(&mut reader, ": connected");
    reader
}

/// Reads up to a line with these words.
fn read_to(reader: &mut BufReader<TcpStream>, wanted: &str) {
    let mut line = String::new();
    while !line.contains(wanted) {
        line.clear();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "it ended before `{wanted}`");
    }
}

#[test]
fn a_stream_ends_as_soon_as_a_key_of_its_person_is_revoked() {
    let server = Running::start();
    let mut of_ana = stream(&server, &server.session_of("ana"));
    let mut of_ben = stream(&server, &server.session_of("ben"));
    let revoked = Instant::now();
    server.revoke_person("ana");
    read_to(&mut of_ana, "event: end");
    // Without the entry it would be noticed after five seconds.
    assert!(revoked.elapsed() < Duration::from_secs(3), "{:?}", revoked.elapsed());
    let writer = server.key("own", "writer");
    let draft = r#"{"robotId":"r","module":"m","source":"s","type":"after-it","state":"final","payload":{}}"#;
    assert_eq!(server.post("/v1/entries", &writer, draft).status, 200);
    read_to(&mut of_ben, "after-it");
}

#[test]
fn signing_in_again_ends_the_session_that_the_browser_had() {
    let server = Running::start();
    let [first, other] = [(); 2].map(|()| signed_in(&server, &server.link("own", "reader"), None));
    let second = signed_in(&server, &server.link("own", "operator"), Some(&first));
    assert_eq!([&first, &other, &second].map(|cookie| is_signed_in(&server, cookie)), [false, true, true]);
    // A cookie of a session that is over is in no one's way.
    assert!(is_signed_in(&server, &signed_in(&server, &server.link("own", "reader"), Some(&first))));
    // Who does not get in stays who they are.
    let refused = server.form("/sign-in", Some(&second), "token=crealeph_x.y.z", true);
    assert_eq!((refused.status, is_signed_in(&server, &second)), (403, true));
}

#[test]
fn a_link_that_is_used_up_signs_in_although_the_previous_session_cannot_be_ended() {
    let server = Running::start();
    let first = signed_in(&server, &server.link("own", "reader"), None);
    server.refuse_entries("session_end");
    let second = signed_in(&server, &server.link("own", "operator"), Some(&first));
    assert_eq!([&first, &second].map(|cookie| is_signed_in(&server, cookie)), [true, true]);
}

/// Every list of Access goes on behind a link, so that an admin ends the oldest session too.
#[test]
fn an_admin_reaches_and_ends_the_oldest_of_many_sessions() {
    let server = Running::start();
    let oldest = server.session_of("the-oldest");
    for number in 0..100 {
        server.session_of(&format!("person-{number}"));
        server.key("own", "reader");
    }
    let admin = server.key("own", "admin");
    let browser = signed_in(&server, &admin, None);
    let id = oldest.split('.').nth(1).unwrap();
    let form = format!("/sessions/{id}/end");
    let page = server.page("/access", Some(&browser)).text();
    assert!(!page.contains(&form) && !page.contains("lists all"), "{page}");
    let link = |page: &str, words: &str| {
        let before = page.split(&format!(">{words}</a>")).next().unwrap();
        let target = before.rsplit("href=\"").next().unwrap().split('"').next().unwrap();
        assert!(target.starts_with("/access?") && page.contains(words), "{target}: {page}");
        target.split('#').next().unwrap().to_owned()
    };
    let more_keys = server.page(&link(&page, "Newer API keys"), Some(&browser)).text();
    assert!(more_keys.contains(admin.split('.').nth(1).unwrap()), "{more_keys}");
    let older = server.page(&link(&page, "Older sessions"), Some(&browser)).text();
    assert!(older.contains(&form) && !older.contains("Older sessions"), "{older}");
    let ended = server.form(&form, Some(&browser), &format!("form={}", form_token(&older)), true);
    assert_eq!(ended.status, 303, "{ended:?}");
    let name = browser.split_once('=').unwrap().0;
    assert!(!is_signed_in(&server, &format!("{name}={oldest}")));
    let refused = server.page("/access?sessions=x", Some(&browser));
    assert_eq!(refused.status, 400, "{refused:?}");
}

#[test]
fn sessions_are_seen_by_those_who_see_grants_and_ended_by_admins() {
    let server = Running::start();
    let stolen = signed_in(&server, &server.link("own", "operator"), None);
    let id = stolen.split('.').nth(1).unwrap().to_owned();
    let [reader, auditor, admin] = ["reader", "auditor", "admin"].map(|role| server.key("own", role));
    let form = format!("/sessions/{id}/end");
    for (token, is_listed, is_offered) in
        [(&reader, false, false), (&auditor, true, false), (&admin, true, true)]
    {
        let page = server.page("/access", Some(&signed_in(&server, token, None))).text();
        assert_eq!((page.contains(&id), page.contains(&form)), (is_listed, is_offered), "{page}");
        assert_eq!(page.contains("(yours)"), is_listed, "{page}");
    }
    let listed = |tenant_admin: &str| {
        let sessions =
            server.get("/v1/sessions", tenant_admin).json()["sessions"].as_array().unwrap().clone();
        sessions.iter().map(|one| one["openedBy"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(listed(&auditor).contains(&format!("link:{id}")));
    let stranger = server.key("other", "admin");
    let end = |token: &str| server.request("DELETE", &format!("/v1/sessions/{id}"), Some(token), None);
    assert_eq!((listed(&stranger), end(&stranger).problem(404).as_str()), (vec![], "unknown_session"));
    assert!(is_signed_in(&server, &stolen));
    // By the page.
    let browser = signed_in(&server, &admin, None);
    let token = form_token(&server.page("/access", Some(&browser)).text()).to_owned();
    let ended = server.form(&form, Some(&browser), &format!("form={token}"), true);
    assert_eq!((ended.status, ended.header("location")), (303, Some("/access#sessions")), "{ended:?}");
    assert!(!is_signed_in(&server, &stolen) && !listed(&auditor).contains(&format!("link:{id}")));
    assert_eq!(end(&admin).json()["state"], "ended", "it has ended already");
    // Through the API, with the stream.
    let again = signed_in(&server, &server.link("own", "operator"), None);
    let mut open = stream(&server, again.split_once('=').unwrap().1);
    let id = again.split('.').nth(1).unwrap();
    let ended = server.request("DELETE", &format!("/v1/sessions/{id}"), Some(&admin), None);
    assert_eq!((ended.status, ended.json()["state"].as_str()), (200, Some("ended")), "{ended:?}");
    read_to(&mut open, "event: end");
    assert!(!is_signed_in(&server, &again));
}

#[test]
fn a_browser_that_used_https_gets_a_cookie_for_https_alone() {
    let name = "team.example".to_owned();
    let enter = |server: &Running, host: &str, scheme: &str| {
        let (token, origin) = (server.link("own", "reader"), format!("{scheme}://{host}"));
        to(server, host, "POST /sign-in", &[FORM, ("Origin", &origin)], &format!("token={token}"))
    };
    // A proxy in front that the server was not told of: the browser says how it got there.
    let server = Running::of(vec![name.clone()], false);
    let port = server.0.port();
    let (secure, plain) = (format!("__Host-crealeph-{port}="), format!("crealeph-{port}="));
    let entered = enter(&server, &name, "https");
    let set = cookies(&entered);
    assert!(set[0].starts_with(&secure) && set[0].ends_with("; Secure"), "{set:?}");
    assert!(set[1].starts_with(&format!("{plain};")) && set[1].contains("Max-Age=0"), "{set:?}");
    assert_eq!(entered.header("strict-transport-security"), None);
    let cookie = set[0].split(';').next().unwrap();
    let pages = |server: &Running, host: &str, cookie: &str| {
        to(server, host, "GET /robots", &[("Cookie", cookie)], "")
    };
    assert_eq!(pages(&server, &name, cookie).status, 200);
    let entered = enter(&server, &format!("localhost:{port}"), "http");
    let set = cookies(&entered);
    assert!(set[0].starts_with(&plain) && !set[0].contains("Secure"), "{set:?}");
    assert_eq!(pages(&server, "localhost", set[0].split(';').next().unwrap()).status, 200);

    // One that it was told of: no page, form or cookie that came without HTTPS counts, except on the machine itself.
    let server = Running::of(vec![name.clone()], true);
    let port = server.0.port();
    let refused = enter(&server, &name, "http");
    assert_eq!((refused.problem(403).as_str(), cookies(&refused).len()), ("origin_refused", 0));
    let entered = enter(&server, &name, "https");
    let cookie = cookies(&entered)[0].split(';').next().unwrap();
    assert_eq!(entered.header("strict-transport-security"), Some("max-age=31536000"));
    let page = pages(&server, &name, cookie);
    assert_eq!((page.status, page.header("strict-transport-security")), (200, Some("max-age=31536000")));
    let planted = cookie.trim_start_matches("__Host-");
    assert_eq!(pages(&server, &name, planted).status, 303);
    let local = enter(&server, &format!("localhost:{port}"), "http");
    assert_eq!((local.status, local.header("strict-transport-security")), (303, None), "{local:?}");
}

#[test]
fn after_signing_in_again_a_form_leads_to_the_page_that_it_was_on() {
    let server = Running::start();
    let (host, elsewhere) = (format!("127.0.0.1:{}", server.0.port()), "https://evil.example/x".to_owned());
    let origin = format!("http://{host}");
    for (from, place) in [
        (Some(format!("{origin}/runs/1?a=b")), "/sign-in?next=%2Fruns%2F1%3Fa%3Db"),
        (Some(elsewhere), "/sign-in"),
        (None, "/sign-in"),
    ] {
        let mut headers = vec![FORM, ("Origin", origin.as_str())];
        headers.extend(from.as_deref().map(|from| ("Referer", from)));
        let answer = to(&server, &host, "POST /runs/1/undo", &headers, "");
        assert_eq!((answer.status, answer.header("location")), (303, Some(place)), "{from:?}");
    }
}

#[test]
fn a_refused_browser_gets_a_page_and_a_program_a_problem() {
    let server = Running::start();
    let host = format!("localhost:{}", server.0.port());
    let long = format!("GET /?q={}", "x".repeat(20_000));
    for (host, line, more, status, code) in [
        (host.as_str(), "GET /sign-out", None, 405, "method_not_allowed"),
        (host.as_str(), "GET /webhooks/x/delete", None, 405, "method_not_allowed"),
        (host.as_str(), "GET /nowhere", None, 404, "no_route"),
        ("evil.example", "GET /", None, 403, "host_refused"),
        (host.as_str(), "GET /", Some(("Origin", "https://evil.example")), 403, "origin_refused"),
        (host.as_str(), long.as_str(), None, 414, "too_large"),
    ] {
        let more: Vec<_> = more.into_iter().collect();
        let page = to(&server, host, line, &[&more[..], &[OPENS]].concat(), "");
        let text = page.text();
        let what = format!("{host} {code} {}: {text}", page.status);
        assert_eq!(
            (page.status, page.header("content-type")),
            (status, Some("text/html; charset=utf-8")),
            "{what}"
        );
        assert!(text.contains(code) && text.contains(page.header("x-request-id").unwrap()), "{what}");
        assert_eq!(to(&server, host, line, &more, "").problem(status), code);
    }
    for (line, methods) in [
        ("GET /sign-out", "POST"),
        ("PUT /sign-in", "GET,HEAD,POST"),
        ("POST /inbox/several", "GET,HEAD"),
        ("DELETE /v1/keys", "GET,HEAD,POST"),
    ] {
        assert_eq!(to(&server, &host, line, &[], "").header("allow"), Some(methods), "{line}");
    }
}

#[test]
fn every_answer_says_what_a_browser_may_do_with_it() {
    let server = Running::start();
    let cookie = signed_in(&server, &server.key("own", "reader"), None);
    let page = server.page("/robots", Some(&cookie));
    let asset = page.text().split("src=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let nothing = "default-src 'none'; frame-ancestors 'none'";
    for (path, policy, opener) in [
        ("/robots", "script-src 'self'", Some("same-origin")),
        ("/sign-in", "script-src 'self'", Some("same-origin")),
        ("/robots/none", "script-src 'self'", Some("same-origin")),
        ("/verify.html", "sandbox", None),
        ("/docs", "style-src 'unsafe-inline'", None),
        (&asset, nothing, None),
        ("/v1/robots", nothing, None),
        ("/v1/robots/none/status", nothing, None),
        ("/healthz", nothing, None),
        ("/v2", nothing, None),
    ] {
        let answer = server.page(path, Some(&cookie));
        let header = |name| answer.header(name).unwrap_or_default();
        assert!(header("content-security-policy").contains(policy), "{path}: {answer:?}");
        assert!(["same-origin", "no-referrer"].contains(&header("referrer-policy")), "{path}");
        assert_eq!(header("cross-origin-resource-policy"), "same-origin", "{path}");
        assert_eq!(answer.header("cross-origin-opener-policy"), opener, "{path}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
    }
}

#[test]
fn a_session_for_a_robot_is_led_to_nothing_that_it_may_not_see() {
    let server = Running::start();
    let admin = signed_in(&server, &server.key_for("own", "admin", Some("r")), None);
    let start = server.page("/", Some(&admin));
    let text = start.text();
    assert_eq!(start.status, 403, "{start:?}");
    assert!(text.contains("restricted to a robot") && !text.contains("href=\"/access\""), "{text}");
    // The page has a way out.
    let left = server.form("/sign-out", Some(&admin), &format!("form={}", form_token(&text)), true);
    assert_eq!((left.status, left.header("location")), (303, Some("/sign-in")), "{left:?}");

    let reader = signed_in(&server, &server.key_for("own", "reader", Some("r")), None);
    let page = server.page("/robots", Some(&reader)).text();
    assert!(page.contains("href=\"/policy\"") && !page.contains("href=\"/access\""), "{page}");
    for (path, status) in [("/policy", 200), ("/policy?robot=r", 200), ("/policy?robot=q", 404)] {
        assert_eq!(server.page(path, Some(&reader)).status, status, "{path}");
    }
    let refused = server.page("/access", Some(&reader));
    assert!(refused.status == 403 && refused.text().contains("action=\"/sign-out\""), "{refused:?}");
}
