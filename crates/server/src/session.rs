//! The browser's part of a session: the cookie that holds its token, and the token that the console's forms carry. The cookie
//! cannot be read by scripts and is not sent by other sites' forms; its name has the port, because cookies ignore ports.

use axum::http::header::{COOKIE, HeaderMap, HeaderValue};
use crealeph_contracts::digest::Blake3;

/// The cookie of this server's sessions.
#[derive(Clone, Debug)]
pub(crate) struct SessionCookie {
    name: String,
    is_secure: bool,
}

impl SessionCookie {
    /// For a server on this port; `is_secure` if browsers reach it by HTTPS.
    pub(crate) fn new(port: u16, is_secure: bool) -> Self {
        // With the prefix, browsers take the cookie from this host by HTTPS alone.
        let prefix = if is_secure { "__Host-" } else { "" };
        SessionCookie { name: format!("{prefix}crealeph-{port}"), is_secure }
    }

    /// The token in a request, if there is one.
    pub(crate) fn token<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.name).map(|(_, token)| token).filter(|token| !token.is_empty())
    }

    /// Sets it for this many seconds; 0 removes it.
    pub(crate) fn set(&self, token: &str, seconds: u64) -> Option<HeaderValue> {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text =
            format!("{}={token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}", self.name);
        HeaderValue::from_str(&text).ok()
    }
}

/// What a form of a session carries, which another site cannot know.
pub(crate) fn form_token(session_token: &str) -> String {
    Blake3::of(format!("crealeph console form\n{session_token}").as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_cookie_of_this_port_is_found_among_others() {
        let cookie = SessionCookie::new(4114, false);
        let mut headers = HeaderMap::new();
        assert_eq!(cookie.token(&headers), None);
        headers.insert(COOKIE, HeaderValue::from_static("a=1; crealeph-4115=other; crealeph-4114=own; b=2"));
        assert_eq!(cookie.token(&headers), Some("own"));
        assert_eq!(SessionCookie::new(4114, true).token(&headers), None);
        let text = SessionCookie::new(4114, true).set("t", 5).unwrap();
        assert_eq!(
            text.to_str().unwrap(),
            "__Host-crealeph-4114=t; Path=/; HttpOnly; SameSite=Lax; Max-Age=5; Secure"
        );
        assert_ne!(form_token("a"), form_token("b"));
    }
}
