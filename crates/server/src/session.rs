//! The browser's part of a session: the cookie that holds its token, and the token that the console's forms carry. The cookie
//! cannot be read by scripts and is not sent by other sites' forms; its name has the port, because cookies ignore ports.

use axum::http::header::{COOKIE, HeaderMap, HeaderValue};
use crealeph_contracts::digest::Blake3;

/// The cookie of this server's sessions, under two names: browsers set, send and replace the one with the prefix only by HTTPS.
#[derive(Clone, Debug)]
pub(crate) struct SessionCookie {
    secure: String,
    plain: String,
}

impl SessionCookie {
    /// For a server on this port.
    pub(crate) fn new(port: u16) -> Self {
        SessionCookie { secure: format!("__Host-crealeph-{port}"), plain: format!("crealeph-{port}") }
    }

    /// The token in a request, if there is one. Under a name that is reached `only_https`, the other cookie can be anyone's.
    pub(crate) fn token<'h>(&self, headers: &'h HeaderMap, only_https: bool) -> Option<&'h str> {
        let named = |own: &str| {
            let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
            let mut pairs =
                cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
            pairs.find(|(name, token)| *name == own && !token.is_empty()).map(|(_, token)| token)
        };
        named(&self.secure).or_else(|| named(&self.plain).filter(|_| !only_https))
    }

    /// Sets it for this many seconds, for HTTPS alone if the browser used that, and removes the other.
    pub(crate) fn set(&self, token: &str, seconds: u64, is_https: bool) -> impl Iterator<Item = HeaderValue> {
        let secure = (&self.secure, "; Secure");
        let plain = (&self.plain, "");
        let (kept, removed) = if is_https { (secure, plain) } else { (plain, secure) };
        [(kept, token, seconds), (removed, "", 0)].into_iter().filter_map(
            |((name, attribute), token, seconds)| {
                let text =
                    format!("{name}={token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{attribute}");
                HeaderValue::from_str(&text).ok()
            },
        )
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
        let cookie = SessionCookie::new(4114);
        let mut headers = HeaderMap::new();
        assert_eq!(cookie.token(&headers, false), None);
        headers.insert(COOKIE, HeaderValue::from_static("a=1; crealeph-4115=other; crealeph-4114=own; b=2"));
        assert_eq!(cookie.token(&headers, false), Some("own"));
        assert_eq!(cookie.token(&headers, true), None, "it may have been set without HTTPS");
        headers.append(COOKIE, HeaderValue::from_static("__Host-crealeph-4114=safe"));
        assert_eq!([true, false].map(|only| cookie.token(&headers, only)), [Some("safe"); 2]);
        assert_ne!(form_token("a"), form_token("b"));
    }

    #[test]
    fn a_browser_keeps_one_cookie_and_by_https_a_secure_one() {
        let cookie = SessionCookie::new(4114);
        let set = |is_https| {
            let all = cookie.set("t", 5, is_https).map(|value| value.to_str().unwrap().to_owned());
            all.collect::<Vec<_>>()
        };
        let rest = "Path=/; HttpOnly; SameSite=Lax";
        assert_eq!(
            set(true),
            [
                format!("__Host-crealeph-4114=t; {rest}; Max-Age=5; Secure"),
                format!("crealeph-4114=; {rest}; Max-Age=0")
            ]
        );
        assert_eq!(
            set(false),
            [
                format!("crealeph-4114=t; {rest}; Max-Age=5"),
                format!("__Host-crealeph-4114=; {rest}; Max-Age=0; Secure")
            ]
        );
    }
}
