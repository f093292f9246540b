//! How webhooks are delivered: the keys of `[server]` that begin with `webhook`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::configuration::{Table, absolute};

/// How many private places can be granted.
const MAX_PRIVATE: usize = 64;

/// Declares the numbers: each a key of `[server]` with its default and range.
macro_rules! settings {
    ($( $(#[doc = $about:literal])* $name:ident: $usual:literal in $low:literal..=$high:literal, )*) => {
        /// How webhooks are delivered.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct WebhookSettings {
            /// The places, as `host:port`, that may have an address that is not public.
            pub private: Vec<String>,
            /// The certificates of the authorities that receivers are checked by, instead of the public ones.
            pub ca_file: Option<PathBuf>,
            $( $(#[doc = $about])* pub $name: u64, )*
        }

        impl Default for WebhookSettings {
            fn default() -> Self {
                WebhookSettings { private: Vec::new(), ca_file: None, $( $name: $usual, )* }
            }
        }

        impl WebhookSettings {
            /// Reads the keys of `[server]` that are about webhooks; files are named from a folder.
            ///
            /// # Errors
            /// When one is out of its range.
            pub fn read(table: &Table<'_>, folder: &Path) -> Result<Self, String> {
                let private = table.texts("webhook_private", MAX_PRIVATE)?;
                let private: Vec<String> = private.into_iter().map(str::to_ascii_lowercase).collect();
                if let Some(bad) = private.iter().find(|place| !is_place(place)) {
                    return Err(format!("`webhook_private` has `{bad}`, which is not `host:port`"));
                }
                let ca_file = table.text("webhook_ca")?.map(|file| absolute(folder, file));
                Ok(WebhookSettings {
                    private,
                    ca_file,
                    $( $name: table.number(stringify!($name), $usual, $low, $high)?, )*
                })
            }
        }
    };
}

settings! {
    /// Webhooks of one tenant.
    max_webhooks: 16 in 1..=1_000,
    /// Deliveries at a time.
    max_webhook_deliveries: 8 in 1..=256,
    /// Deliveries of one tenant at a time.
    max_webhook_deliveries_per_tenant: 4 in 1..=256,
    /// Bytes of a delivery; an entry that is larger is sent without its payload.
    max_webhook_bytes: 1_048_576 in 4_096..=16_777_216,
    /// Milliseconds until a receiver must be connected.
    webhook_connect_timeout_ms: 5_000 in 10..=60_000,
    /// Milliseconds until a receiver must have answered.
    webhook_timeout_ms: 15_000 in 10..=120_000,
    /// Milliseconds until a failed delivery is tried again; doubled after each failure.
    webhook_retry_ms: 1_000 in 1..=3_600_000,
    /// Milliseconds between two tries at most.
    webhook_max_retry_ms: 3_600_000 in 1..=86_400_000,
    /// Hours of failures after which a webhook is disabled.
    webhook_disable_hours: 120 in 1..=8_760,
}

impl WebhookSettings {
    /// How long after this many failures the next try is made at the latest.
    pub(super) fn backoff(&self, failures: u32) -> Duration {
        let doubled = 1u64.checked_shl(failures.saturating_sub(1).min(40)).unwrap_or(u64::MAX);
        Duration::from_millis(self.webhook_retry_ms.saturating_mul(doubled).min(self.webhook_max_retry_ms))
    }

    /// Whether a place may have an address that is not public.
    pub(super) fn is_private_granted(&self, host: &str, port: u16) -> bool {
        let place = format!("{}:{port}", host.to_ascii_lowercase());
        self.private.contains(&place)
    }
}

fn is_place(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn tries_come_later_and_later_up_to_a_bound() {
        let settings = WebhookSettings { webhook_max_retry_ms: 60_000, ..Default::default() };
        let seconds = |failures| settings.backoff(failures).as_secs();
        assert_eq!([0, 1, 2, 3, 6, 7, 1_000].map(seconds), [1, 1, 2, 4, 32, 60, 60]);
    }

    #[test]
    fn a_private_place_needs_its_port() {
        let read = |text: &str| {
            let table: toml::Table = text.parse().unwrap();
            WebhookSettings::read(&Table::new(&table), Path::new("/f"))
        };
        let settings = read("webhook_private = [\"Hook.Internal:8443\"]\nwebhook_ca = \"ca.pem\"").unwrap();
        assert!(settings.is_private_granted("hook.internal", 8443));
        assert!(!settings.is_private_granted("hook.internal", 443));
        assert_eq!(settings.ca_file, Some(PathBuf::from("/f/ca.pem")));
        for bad in ["webhook_private = [\"hook\"]", "max_webhooks = 0", "webhook_timeout_ms = 1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
