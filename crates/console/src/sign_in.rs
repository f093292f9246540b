//! Signing in: with a link from the terminal, which a button consumes, or with an API key.

use maud::html;

use crate::frame::plain;
use crate::parts::{line, words};

/// What the sign-in page is about.
#[derive(Clone, Debug, Default)]
pub struct SignInPage {
    /// The token of a link, if one was opened.
    pub code: Option<String>,
    /// The role and tenant that the link signs in for; `None` if it cannot be used.
    pub offers: Option<(&'static str, String)>,
    /// Where to go then.
    pub next: Option<String>,
    /// Why the last try failed.
    pub error: Option<String>,
}

/// The sign-in page.
pub fn sign_in(page: &SignInPage) -> String {
    let next = html! { @if let Some(next) = &page.next { input type="hidden" name="next" value=(next); } };
    plain(
        "Sign in",
        html! {
            h1 { "Sign in" }
            @if let Some(error) = &page.error { p .error role="alert" { (words(error)) } }
            @match (&page.code, &page.offers) {
                (Some(code), Some((role, tenant))) => {
                    p { "This link signs you in once, as " strong { (role) } " of the tenant " code { (line(tenant)) } "." }
                    form action="/sign-in" method="post" {
                        input type="hidden" name="token" value=(code);
                        (next)
                        p { button type="submit" autofocus { "Sign in" } }
                    }
                }
                _ => {
                    p { "In a terminal on the machine of the ledger, this prints a link that signs in once:" }
                    pre { code { "crealeph key link --role operator" } }
                    form action="/sign-in" method="post" {
                        p { label for="token" { "Or paste an API key" } }
                        p { input #token type="password" name="token" required autocomplete="off" spellcheck="false" maxlength="600"; }
                        (next)
                        p { button type="submit" { "Sign in" } }
                    }
                }
            }
        },
    )
}
