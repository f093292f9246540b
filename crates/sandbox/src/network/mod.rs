//! The hosts a command may reach, and the record of what it reached. Owns parsing, the verdict on a target
//! and the log; the proxy that carries it out is in `proxy`. Refuses every target that was not granted.

mod proxy;
mod request;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use serde::Serialize;

pub(crate) use proxy::Proxy;
pub use proxy::try_hosts;

/// Where the proxy listens, on the loopback of the sandbox's own network.
pub(crate) const PROXY_PORT: u16 = 3128;

/// A host and port that may be reached: `api.example.com:443`, `[2001:db8::1]:443`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Host {
    name: String,
    port: u16,
}

impl Host {
    /// The name or address.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it names the machine's own loopback.
    pub(crate) fn is_loopback(&self) -> bool {
        self.name == "localhost" || self.address().is_some_and(|a| a.to_canonical().is_loopback())
    }

    fn address(&self) -> Option<IpAddr> {
        self.name.parse().ok()
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

/// Why a text is not a host and port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a host and port; write it as `api.example.com:443`")]
pub struct HostError {
    text: String,
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let error = || HostError { text: text.chars().take(300).collect() };
        let (name, port) = text.rsplit_once(':').ok_or_else(error)?;
        let port: u16 = port.parse().ok().filter(|p| *p != 0).ok_or_else(error)?;
        let bracketed = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
        let name = match bracketed {
            Some(inner) => inner.parse::<Ipv6Addr>().map_err(|_| error())?.to_string(),
            None => name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase(),
        };
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        if bracketed.is_none() && (name.is_empty() || name.len() > 253 || !name.bytes().all(plain)) {
            return Err(error());
        }
        Ok(Self { name, port })
    }
}

/// One connection the proxy made or refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxiedConnection {
    /// The target that the command requested.
    pub target: String,
    /// The address to which it led.
    pub address: Option<SocketAddr>,
    /// Its outcome.
    pub verdict: ConnectionVerdict,
    /// Bytes sent by the command.
    pub sent_bytes: u64,
    /// Bytes it received.
    pub received_bytes: u64,
}

/// The outcome of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionVerdict {
    /// It was made.
    Connected,
    /// The host and port were not granted.
    NotGranted,
    /// The name was granted but leads to a private or loopback address that was not.
    PrivateAddress,
    /// The name was granted but does not resolve.
    Unresolved,
    /// It was granted but could not be reached.
    Unreachable,
    /// It was not a request the proxy understands.
    Malformed,
    /// Too many connections were open.
    TooMany,
}

/// The targets that may be reached.
#[derive(Debug, Clone)]
pub(crate) struct GrantedHosts {
    pub(crate) hosts: Vec<Host>,
    /// Whether names may lead to private addresses.
    pub(crate) may_be_private: bool,
}

impl GrantedHosts {
    /// Whether `target` was granted by name and port.
    fn is_granted(&self, target: &Host) -> bool {
        self.hosts.contains(target)
    }

    /// Whether a granted name may lead to `address`: any public one, a private one if that was granted, and any other only
    /// if it was itself granted with that port.
    fn may_lead_to(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        let named = |h: &Host| h.port == address.port() && h.address().map(|a| a.to_canonical()) == Some(ip);
        is_public(ip) || (self.may_be_private && is_private(ip)) || self.hosts.iter().any(named)
    }
}

/// Whether an address is in a range for private networks. Loopback and link-local addresses are not, nor those at which clouds
/// serve a machine's credentials.
fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            v4.is_private() || (a == 100 && (64..128).contains(&b) && v4 != ALIBABA_METADATA)
        }
        IpAddr::V6(v6) => {
            let [a, b, ..] = v6.segments();
            (a & 0xfe00) == 0xfc00 && (a, b) != AWS_METADATA
        }
    }
}

/// Where Alibaba Cloud has its metadata, in the range that carriers share.
const ALIBABA_METADATA: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
/// The prefix under which AWS has its metadata and other services of a machine's own, `fd00:ec2::/32`.
const AWS_METADATA: (u16, u16) = (0xfd00, 0x0ec2);

/// Whether an address is one of the public internet: none of this machine, of a private network, of a link, of a group, of
/// documentation, or of a cloud's metadata, nor one of these inside an IPv6 address.
pub fn is_public_address(ip: IpAddr) -> bool {
    is_public(ip.to_canonical())
}

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = matches!(
        (a, b, c),
        (0 | 10 | 127, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 168, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
            | (224..=255, _, _)
    );
    !special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    if let Some(v4) = ip.to_ipv4() {
        return is_public_v4(v4);
    }
    let [a, b, c, d, _, _, high, low] = ip.segments();
    let embedded = |high: u16, low: u16| {
        let [h1, h2] = high.to_be_bytes();
        let [l1, l2] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(h1, h2, l1, l2))
    };
    match (a, b) {
        // NAT64 and 6to4 carry an IPv4 address that counts.
        (0x64, 0xff9b) => c == 0 && d == 0 && embedded(high, low),
        (0x2002, _) => embedded(b, c),
        // Teredo, documentation, benchmarks.
        (0x2001, 0 | 2 | 0xdb8) | (0x3fff, _) => false,
        // Global unicast alone.
        _ => (a & 0xe000) == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_strictly() {
        for good in
            ["api.example.com:443", "API.Example.com.:443", "127.0.0.1:80", "[::1]:8080", "localhost:1"]
        {
            good.parse::<Host>().unwrap();
        }
        for bad in [
            "",
            "a",
            "a:",
            "a:0",
            "a:70000",
            ":443",
            "a b:1",
            "http://a:1",
            "a/b:1",
            "[x]:1",
            "a:b:1",
            "é:1",
            "*:443",
        ] {
            assert!(bad.parse::<Host>().is_err(), "{bad}");
        }
        assert_eq!("API.Example.com.:443".parse::<Host>().unwrap(), "api.example.com:443".parse().unwrap());
    }

    #[test]
    fn private_addresses_are_distinguished_from_public_ones() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "::127.0.0.1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"] {
            assert!(is_public(public.parse::<IpAddr>().unwrap().to_canonical()), "{public}");
        }
    }

    #[test]
    fn a_private_address_must_be_named_itself() {
        let hosts: Vec<Host> = vec!["localhost:80".parse().unwrap(), "10.0.0.5:443".parse().unwrap()];
        let granted = GrantedHosts { hosts, may_be_private: false };
        assert!(!granted.may_lead_to("127.0.0.1:80".parse().unwrap()));
        assert!(granted.may_lead_to("10.0.0.5:443".parse().unwrap()));
        assert!(!granted.may_lead_to("10.0.0.5:80".parse().unwrap()));
        assert!(!granted.may_lead_to("10.0.0.6:443".parse().unwrap()));
        assert!(granted.may_lead_to("1.1.1.1:80".parse().unwrap()));
    }

    #[test]
    fn private_ranges_can_be_granted_and_hold_no_loopback_and_no_metadata() {
        let hosts: Vec<Host> = vec!["artifacts.internal:443".parse().unwrap()];
        let granted = GrantedHosts { hosts, may_be_private: true };
        let leads = |address: &str| granted.may_lead_to(SocketAddr::new(address.parse().unwrap(), 443));
        for private in [
            "10.0.0.1",
            "10.255.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "192.168.0.1",
            "100.64.0.0",
            "100.127.255.255",
            "fc00::1",
            "fd12:3456::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(leads(private), "{private}");
        }
        for never in [
            "127.0.0.1",
            "127.255.255.254",
            "0.0.0.0",
            "169.254.169.254",
            "169.254.0.1",
            "100.100.100.200",
            "192.0.0.192",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::",
        ] {
            assert!(!leads(never), "{never}");
        }
    }
}
