//! The host names that the server answers to. A page of another site in a browser can send requests to a loopback address;
//! its `Host` (after DNS rebinding) or its `Origin` gives it away. Under the names that browsers reach by HTTPS alone, a page that came
//! without it is another site's.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, HeaderMap, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Uri};

use crate::problem::{Problem, ProblemKind};
use crate::settings::ServerSettings;

/// What encrypts the requests of browsers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    /// The server's own TLS.
    Own,
    /// A proxy's, for every name that is not this machine's own.
    Proxy,
    /// Nothing, or a proxy that the server was not told of.
    Unknown,
}

/// The names of the server, without ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerNames {
    hosts: Vec<String>,
    origins: Vec<String>,
    encryption: Encryption,
}

impl ServerNames {
    /// The names of an address, and those that are configured.
    pub(crate) fn new(address: SocketAddr, settings: &ServerSettings, encryption: Encryption) -> Self {
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
        ServerNames { hosts, origins: settings.origins.clone(), encryption }
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
        let plain = origin.strip_prefix("http://").filter(|_| !self.is_https_only(host));
        let site = plain.or_else(|| origin.strip_prefix("https://"));
        site.is_some_and(|site| site.eq_ignore_ascii_case(host.as_str()))
            || self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }

    fn is_https_only(&self, host: &Authority) -> bool {
        match self.encryption {
            Encryption::Own => true,
            Encryption::Proxy => !is_loopback(host),
            Encryption::Unknown => false,
        }
    }

    /// Whether browsers reach the name that a request used by HTTPS alone.
    pub(crate) fn only_https(&self, headers: &HeaderMap) -> bool {
        headers.get(HOST).and_then(authority).is_some_and(|host| self.is_https_only(&host))
    }

    /// Whether a browser sent the request by HTTPS, as far as that is known: else its `Origin` says so.
    pub(crate) fn is_https(&self, headers: &HeaderMap) -> bool {
        let origin = headers.get(ORIGIN).map(HeaderValue::as_bytes);
        self.only_https(headers) || origin.is_some_and(|origin| origin.starts_with(b"https://"))
    }

    /// Whether browsers are to remember that a name is reached by HTTPS alone; not of this machine, whose other ports have other servers.
    pub(crate) fn is_strict(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(authority);
        host.is_some_and(|host| self.is_https_only(&host) && !is_loopback(&host))
    }
}

fn is_loopback(host: &Authority) -> bool {
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
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
        check_under(Encryption::Unknown, host, origin)
    }

    fn check_under(encryption: Encryption, host: &str, origin: Option<&str>) -> Result<(), ProblemKind> {
        let settings = ServerSettings {
            webhooks: Default::default(),
            hosts: vec!["team.example".to_owned()],
            origins: vec!["https://console.example".to_owned()],
            tls: None,
            metrics: None,
            bounds: ServerBounds::default(),
        };
        let names = ServerNames::new("127.0.0.1:4114".parse().unwrap(), &settings, encryption);
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
    #[test]
    fn a_page_without_encryption_is_another_site_where_browsers_use_https() {
        use Encryption::{Own, Proxy, Unknown};
        let (plain, encrypted) = (Some("http://team.example"), Some("https://team.example"));
        let local = Some("http://localhost:4114");
        for (encryption, plain_passes, local_passes) in
            [(Own, false, false), (Proxy, false, true), (Unknown, true, true)]
        {
            let passes = |host, origin| check_under(encryption, host, origin).is_ok();
            assert_eq!(passes("team.example", plain), plain_passes, "{encryption:?}");
            assert!(passes("team.example", encrypted), "{encryption:?}");
            assert_eq!(passes("localhost:4114", local), local_passes, "{encryption:?}");
        }
    }
}
