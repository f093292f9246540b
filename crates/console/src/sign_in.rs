//! Signing in: with a link from the terminal, which a button consumes, or with an API key.

use maud::html;

use crate::frame::{passkey_script, plain};
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
    /// The id of the request that failed.
    pub request_id: Option<String>,
    /// Whether someone with a passkey has to say which tenant they sign in to: there is more than one.
    pub asks_tenant: bool,
}

/// The sign-in page.
pub fn sign_in(page: &SignInPage) -> String {
    let next = html! { @if let Some(next) = &page.next { input type="hidden" name="next" value=(next); } };
    plain(
        "Sign in",
        html! {
            h1 { "Sign in" }
            @if let Some(error) = &page.error {
                p .error role="alert" { (words(error)) }
                p { "Use another link or key. " code { "crealeph key list" } " shows whether a key still counts, and a link signs in once and within its time." }
                @if let Some(id) = &page.request_id { p .quiet { "Request " code { (line(id)) } } }
            }
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
                    p { "In a terminal on the machine with the ledger, this prints a link that signs in once:" }
                    pre { code { "crealeph key link --role operator" } }
                    form action="/sign-in" method="post" {
                        p { label for="token" { "Or paste an API key" } }
                        p { input #token type="password" name="token" required autocomplete="off" spellcheck="false" maxlength="600"; }
                        (next)
                        p { button type="submit" { "Sign in" } }
                    }
                    section data-passkey-sign-in="" aria-labelledby="with-passkey" hidden {
                        h2 #with-passkey { "With a passkey" }
                        form action="/sign-in/passkey" method="post" {
                            @if page.asks_tenant {
                                p { label for="tenant" { "Tenant" } }
                                p { input #tenant name="tenant" value="local" required autocomplete="organization" spellcheck="false" maxlength="256"; }
                            }
                            input type="hidden" name="signed";
                            (next)
                            p { button type="button" { "Sign in with a passkey" } }
                        }
                        p data-status="" role="status" {}
                    }
                    (passkey_script())
                }
            }
        },
    )
}

/// The page that the link of an invitation opens. Its script reads what the link has behind `#`, and does the rest.
pub fn enrol() -> String {
    plain(
        "Enrol a passkey",
        html! {
            h1 { "Enrol a passkey" }
            section data-enrol="" aria-label="Your passkey" {
                p { "An admin has invited you, " strong data-person="" { "who has this link" } ", to approve with a passkey: a key in this device, your phone or a security key. It can be created here once." }
                p { button type="button" hidden { "Create a passkey" } }
                p data-status="" role="status" { "This page needs scripts to ask your browser for a passkey." }
                div data-done="" hidden {
                    p { "Your key is " code data-key="" {} ". Tell your admin, over another channel: " code { "crealeph person list" } " must show the same." }
                    p { a href="/sign-in" { "Sign in" } }
                }
            }
            (passkey_script())
        },
    )
}
