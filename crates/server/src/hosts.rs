//! The host names that the server answers to. A page of another site in a browser can send requests to a loopback address;
//! its `Host` (after DNS rebinding) or its `Origin` gives it away.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, HeaderMap, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Uri};

use crate::problem::{Problem, ProblemKind};
use crate::settings::ServerSettings;

/// The names of the server, without ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerNames {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl ServerNames {
    /// The names of an address, and those that are configured.
    pub(crate) fn new(address: SocketAddr, settings: &ServerSettings) -> Self {
        let mut hosts = settings.hosts.clone();
        match address.ip() {
            ip if ip.is_loopback() => hosts.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned)),
            ip if ip.is_unspecified() => {}
            IpAddr::V4(ip) => hosts.push(ip.to_string()),
            IpAddr::V6(ip) => hosts.push(format!("[{ip}]")),
        }
        if address.ip().is_loopback() {
            hosts.push(match address.ip() {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            });
        }
        ServerNames { hosts, origins: settings.origins.clone() }
    }

    /// Refuses a request to another name, or from a page of another site.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let refused = || {
            Problem::new(ProblemKind::HostRefused, "the server does not answer to this host")
                .with_hint("use the address that it printed, or list the name under `hosts` in [server]")
        };
        let mut named = headers.get_all(HOST).iter();
        let (Some(host), None) = (named.next(), named.next()) else {
            return Err(Problem::new(ProblemKind::BadRequest, "the request needs one `Host` header"));
        };
        let host = authority(host).ok_or_else(refused)?;
        let of_uri = uri.authority().map(Authority::host);
        let is_known = |name: &str| self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name));
        if !is_known(host.host()) || of_uri.is_some_and(|name| !is_known(name)) {
            return Err(refused());
        }
        match headers.get(ORIGIN) {
            Some(origin) if !self.is_own(origin, &host) => {
                Err(Problem::new(ProblemKind::OriginRefused, "pages of this origin may not use the server")
                    .with_hint("list it under `origins` in [server]"))
            }
            _ => Ok(()),
        }
    }

    /// Whether an origin is the server itself, by the name and port that the request used, or a listed one.
    fn is_own(&self, origin: &HeaderValue, host: &Authority) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        let site = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        site.is_some_and(|site| site.eq_ignore_ascii_case(host.as_str()))
            || self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }
}

fn authority(value: &HeaderValue) -> Option<Authority> {
    let authority: Authority = value.to_str().ok()?.parse().ok()?;
    (!authority.as_str().contains('@')).then_some(authority)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::settings::ServerBounds;

    fn check(host: &str, origin: Option<&str>) -> Result<(), ProblemKind> {
        let settings = ServerSettings {
            webhooks: Default::default(),
            hosts: vec!["team.example".to_owned()],
            origins: vec!["https://console.example".to_owned()],
            tls: None,
            metrics: None,
            bounds: ServerBounds::default(),
        };
        let names = ServerNames::new("127.0.0.1:4114".parse().unwrap(), &settings);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        names.check(&Uri::from_static("/healthz"), &headers).map_err(|problem| problem.kind())
    }

    #[test]
    fn only_own_and_listed_names_are_answered() {
        for host in ["127.0.0.1:4114", "localhost", "LOCALHOST:1", "[::1]:4114", "team.example"] {
            assert_eq!(check(host, None), Ok(()), "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1.evil.example", "localhost.evil:4114", "a@localhost", "10.0.0.1"]
        {
            assert_eq!(check(host, None), Err(ProblemKind::HostRefused), "{host}");
        }
        for origin in ["http://localhost:4114", "https://localhost:4114", "https://console.example"] {
            assert_eq!(check("localhost:4114", Some(origin)), Ok(()), "{origin}");
        }
        for origin in ["null", "https://evil.example", "http://localhost:8080", "http://localhost"] {
            assert_eq!(check("localhost:4114", Some(origin)), Err(ProblemKind::OriginRefused), "{origin}");
        }
    }
}
