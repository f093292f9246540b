//! Signing in and out. GET shows a link and only POST uses it, so that a program that follows links signs no one in.

use axum::http::{StatusCode, header};
use crealeph_console::{self as view, SignInPage};
use crealeph_runtime::access::{OpenedSession, SignInError, end_session, sign_in, token_role};

use super::{html, redirect};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::routes::sessions;

/// The sign-in page.
pub(super) fn show(call: &Call) -> Result<Reply, Problem> {
    let code = call.text("code").map(str::to_owned);
    let offers = match &code {
        Some(code) => token_role(call.ledger(), code)?,
        None => None,
    };
    let error = match (&code, &offers) {
        (Some(_), None) => Some(SignInError::Unknown.to_string()),
        _ => None,
    };
    let request_id = error.is_some().then(|| call.request_id.clone());
    let offers = offers.map(|(tenant, role)| (role.as_str(), tenant.as_str().to_owned()));
    let next = call.text("next").and_then(own_path).map(str::to_owned);
    let asks_tenant = asks_tenant(call);
    Ok(html(view::sign_in(&SignInPage { code, offers, next, error, request_id, asks_tenant })))
}

/// Opens a session.
pub(super) fn enter(call: &Call) -> Result<Reply, Problem> {
    let next = own_path(call.field("next"));
    let session = match sign_in(call.ledger(), call.field("token").trim()) {
        Ok(session) => session,
        Err(SignInError::Access(error)) => return Err(error.into()),
        Err(why) => return Ok(refused(call, why.to_string(), next)),
    };
    entered(call, &session, next)
}

/// The page again, with why no one was signed in.
pub(super) fn refused(call: &Call, why: String, next: Option<&str>) -> Reply {
    let (error, next) = (Some(why), next.map(str::to_owned));
    let request_id = Some(call.request_id.clone());
    let page =
        SignInPage { error, request_id, next, asks_tenant: asks_tenant(call), ..SignInPage::default() };
    let mut reply = html(view::sign_in(&page));
    reply.status = StatusCode::FORBIDDEN;
    reply
}

/// Whether someone with a passkey has to say which tenant they sign in to.
fn asks_tenant(call: &Call) -> bool {
    call.app.only_tenant.get(call.ledger()).is_none()
}

/// Continues with a session that was opened. It replaces the one that the browser has, which ends. If that one cannot be ended, the new one
/// counts all the same: what opened it is used up.
pub(super) fn entered(call: &Call, session: &OpenedSession, next: Option<&str>) -> Result<Reply, Problem> {
    if let Some(token) = &call.session_token
        && let Err(problem) = end_previous(call, token)
    {
        let detail = problem.words().0;
        tracing::warn!(request = %call.request_id, "the session that the browser had was not ended: {detail}");
    }
    Ok(with_cookie(call, redirect(next.unwrap_or("/"))?, &session.token, session.seconds))
}

fn end_previous(call: &Call, token: &str) -> Result<(), Problem> {
    if let Some(before) = call.app.sessions.authenticate(call.ledger(), token)? {
        end_session(call.ledger(), &before.tenant_id, &before.key_id)?;
    }
    Ok(())
}

/// Ends the session.
pub(super) fn leave(call: &Call) -> Result<Reply, Problem> {
    let who = call.who()?;
    end_session(&call.acting_ledger()?, &who.tenant_id, &who.key_id)?;
    Ok(with_cookie(call, redirect("/sign-in")?, "", 0))
}

/// Ends a session that is listed, which may be someone else's.
pub(super) fn end(call: &Call) -> Result<Reply, Problem> {
    sessions::ended(call)?;
    redirect("/access#sessions")
}

/// A reply that sets the session's cookie.
fn with_cookie(call: &Call, mut reply: Reply, token: &str, seconds: u64) -> Reply {
    for cookie in call.app.cookie.set(token, seconds, call.is_https) {
        reply.headers.append(header::SET_COOKIE, cookie);
    }
    reply
}

/// A path of this server, and nothing that a browser would take for another one.
pub(super) fn own_path(target: &str) -> Option<&str> {
    let is_own = target.starts_with('/')
        && !target.starts_with("//")
        && !target.contains('\\')
        && target.bytes().all(|byte| byte.is_ascii_graphic());
    is_own.then_some(target)
}

#[cfg(test)]
mod tests {
    use super::own_path;

    #[test]
    fn signing_in_leads_to_pages_of_this_server_alone() {
        for target in ["/", "/ledger?robot=a%20b", "/runs/1"] {
            assert_eq!(own_path(target), Some(target));
        }
        for target in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "x",
            "/a\nb",
            "/ä",
            "javascript:1",
        ] {
            assert_eq!(own_path(target), None, "{target:?}");
        }
    }
}
