//! `[link]`: whether agents connect to the controller, to brokers, or to a broker in the controller's process.
//!
//! Absent: where the controller listens (`listen` in `config.rs`), and the start of the link (`run/links.rs`).

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use muster_shared::join::{self, ADDRESSES_MAX, Address, Credentials};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;

const SCHEME: &str = "mqtts://";

/// `[link]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Link {
    /// `direct`, `mqtts://HOST:PORT[,…]` of brokers, or `embedded`.
    pub url: String,
    /// Brokers' addresses for servers that have no certificate yet; empty: those of `url`.
    pub join_url: String,
    /// The CA of the brokers' certificates, PEM.
    pub ca_file: PathBuf,
    /// This controller's user at the brokers; empty: its certificate says who it is.
    pub user: String,
    pub password_file: PathBuf,
    /// The user that join tokens carry; empty: none.
    pub join_user: String,
    pub join_password_file: PathBuf,
}

impl Default for Link {
    fn default() -> Self {
        let (none, no_file) = (String::new, PathBuf::new);
        Self {
            url: "direct".into(),
            join_url: none(),
            ca_file: no_file(),
            user: none(),
            password_file: no_file(),
            join_user: none(),
            join_password_file: no_file(),
        }
    }
}

/// A way between agents and controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Agents connect to the controller.
    Direct,
    /// Agents and controller connect to these brokers, to be tried in this order.
    Brokers(Vec<Address>),
    /// Agents connect to a broker in the controller's process.
    #[cfg(feature = "embedded")]
    Embedded,
}

/// Everything about brokers, read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brokers {
    pub addresses: Vec<Address>,
    pub join_addresses: Vec<Address>,
    pub ca_fingerprint: [u8; 32],
    pub credentials: Option<Credentials>,
    pub join_credentials: Option<Credentials>,
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "direct" => return Ok(Way::Direct),
            #[cfg(feature = "embedded")]
            "embedded" => return Ok(Way::Embedded),
            #[cfg(not(feature = "embedded"))]
            "embedded" => {
                return Err("this program was built without the embedded broker: want 'direct', or mqtts://HOST:PORT \
                            of a broker (docs/brokers.md)"
                    .into());
            }
            _ => {}
        }
        let mut addresses = Vec::new();
        for (at, part) in text.split(',').map(str::trim).enumerate() {
            let address = match part.strip_prefix(SCHEME) {
                Some(address) => address,
                // Only the first has to say it.
                None if at > 0 && !part.contains("://") => part,
                None if part.starts_with("mqtt://") => {
                    return Err(format!(
                        "'{part}': brokers are reached over TLS only: want {SCHEME}HOST:PORT"
                    ));
                }
                None => {
                    return Err(format!("'{part}': want 'direct', or {SCHEME}HOST:PORT[,{SCHEME}HOST:PORT]"));
                }
            };
            addresses.push(address.parse().map_err(|error| format!("{error}"))?);
        }
        if addresses.len() > ADDRESSES_MAX {
            return Err(format!("at most {ADDRESSES_MAX} brokers, not {}", addresses.len()));
        }
        Ok(Way::Brokers(addresses))
    }
}

impl Link {
    /// Parses what needs no file.
    ///
    /// # Errors
    /// The error names the key and the reason.
    pub fn way(&self) -> anyhow::Result<Way> {
        let way = self.url.parse::<Way>().map_err(|error| anyhow::anyhow!("link.url: {error}"))?;
        match &way {
            Way::Direct => anyhow::ensure!(
                self.join_url.is_empty(),
                "link.join_url is for brokers, and link.url is 'direct': give the brokers in link.url"
            ),
            #[cfg(feature = "embedded")]
            Way::Embedded => {
                let needless = Link { url: Link::default().url, ..self.clone() } != Link::default();
                anyhow::ensure!(!needless, "link.url 'embedded' needs nothing else in [link]: remove it");
            }
            Way::Brokers(_) => {
                self.join_addresses(&[])?;
                anyhow::ensure!(
                    !self.ca_file.as_os_str().is_empty(),
                    "link.ca_file is missing: with brokers in link.url it names the CA of their certificates (PEM)"
                );
            }
        }
        Ok(way)
    }

    fn join_addresses(&self, default: &[Address]) -> anyhow::Result<Vec<Address>> {
        if self.join_url.is_empty() {
            return Ok(default.to_vec());
        }
        match self.join_url.parse::<Way>() {
            Ok(Way::Brokers(addresses)) => Ok(addresses),
            Ok(_) => Err(anyhow::anyhow!("link.join_url: want {SCHEME}HOST:PORT of a broker")),
            Err(error) => Err(anyhow::anyhow!("link.join_url: {error}")),
        }
    }

    /// Reads the files that belong to brokers; `None` for the other links.
    ///
    /// # Errors
    /// The error names the key, the file, and the reason.
    pub fn brokers(&self) -> anyhow::Result<Option<Brokers>> {
        let Way::Brokers(addresses) = self.way()? else { return Ok(None) };
        let ca_der = CertificateDer::from_pem_file(&self.ca_file).map_err(|error| {
            anyhow::anyhow!("link.ca_file: {}: want a certificate in PEM: {error}", self.ca_file.display())
        })?;
        Ok(Some(Brokers {
            join_addresses: self.join_addresses(&addresses)?,
            addresses,
            ca_fingerprint: join::fingerprint(&ca_der),
            credentials: credentials("", &self.user, &self.password_file)?,
            join_credentials: credentials("join_", &self.join_user, &self.join_password_file)?,
        }))
    }
}

fn credentials(which: &str, user: &str, file: &Path) -> anyhow::Result<Option<Credentials>> {
    if user.is_empty() {
        let key = format!("link.{which}password_file is given, and no link.{which}user");
        anyhow::ensure!(file.as_os_str().is_empty(), key);
        return Ok(None);
    }
    let password = match file.as_os_str().is_empty() {
        true => String::new(),
        false => fs::read_to_string(file)
            .with_context(|| format!("link.{which}password_file: {} cannot be read", file.display()))?,
    };
    let password = password.lines().next().unwrap_or_default().to_owned();
    let credentials = Credentials { user: user.to_owned(), password };
    anyhow::ensure!(
        credentials.is_bounded(),
        "link.{which}user and its password have at most 256 bytes each"
    );
    Ok(Some(credentials))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brokers(list: &[&str]) -> Way {
        Way::Brokers(list.iter().map(|address| address.parse().unwrap()).collect())
    }

    #[test]
    fn a_link_is_direct_or_a_list_of_brokers() {
        for (text, wanted) in [
            ("direct", Way::Direct),
            ("mqtts://mq:8883", brokers(&["mq:8883"])),
            ("mqtts://mq-1:8883,mqtts://mq-2:8883", brokers(&["mq-1:8883", "mq-2:8883"])),
            ("mqtts://mq-1:8883, [fd00::1]:8883", brokers(&["mq-1:8883", "[fd00::1]:8883"])),
        ] {
            assert_eq!(text.parse(), Ok(wanted), "{text}");
        }
        for (text, wanted) in [
            ("", "want 'direct'"),
            ("mq:8883", "want 'direct', or mqtts://HOST:PORT"),
            ("mqtt://mq:1883", "over TLS only"),
            ("mqtts://mq", "'mq' is not an address"),
            ("mqtts://mq:8883,http://x:1", "want 'direct'"),
            ("mqtts://a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1", "at most 8 brokers"),
        ] {
            let error = text.parse::<Way>().unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn the_embedded_broker_needs_no_settings() {
        let embedded = Link { url: "embedded".into(), ..Link::default() };
        let user = Link { user: "me".into(), ..embedded.clone() };
        if cfg!(feature = "embedded") {
            assert_eq!(embedded.brokers().unwrap(), None);
            let error = format!("{:#}", user.way().unwrap_err());
            assert!(error.contains("needs nothing else in [link]"), "{error}");
        } else {
            let error = format!("{:#}", embedded.way().unwrap_err());
            assert!(error.contains("built without the embedded broker"), "{error}");
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str| {
            let path = dir.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        let key = rcgen::KeyPair::generate().unwrap();
        let ca = rcgen::CertificateParams::default().self_signed(&key).unwrap();
        let good = Link {
            url: "mqtts://mq:8883".into(),
            join_url: "mqtts://mq:8884".into(),
            ca_file: file("ca.crt", &ca.pem()),
            join_user: "join".into(),
            join_password_file: file("password", "secret\n"),
            ..Link::default()
        };
        let read = good.brokers().unwrap().unwrap();
        assert_eq!(read.ca_fingerprint, join::fingerprint(ca.der()));
        assert_eq!(read.join_addresses[0].as_str(), "mq:8884");
        assert_eq!(read.join_credentials.unwrap().password, "secret");
        assert_eq!(read.credentials, None);
        assert_eq!(Link::default().brokers().unwrap(), None);
        let same = Link { join_url: String::new(), ..good.clone() };
        assert_eq!(same.brokers().unwrap().unwrap().join_addresses[0].as_str(), "mq:8883");
        let not_there = dir.path().join("not-there");
        for (wrong, wanted) in [
            (Link { url: "mq".into(), ..good.clone() }, "link.url: 'mq'"),
            (Link { url: "direct".into(), ..good.clone() }, "link.join_url is for brokers"),
            (Link { join_url: "direct".into(), ..good.clone() }, "link.join_url: want mqtts://"),
            (Link { ca_file: PathBuf::new(), ..good.clone() }, "link.ca_file is missing"),
            (Link { ca_file: not_there.clone(), ..good.clone() }, "not-there"),
            (Link { ca_file: file("empty", ""), ..good.clone() }, "want a certificate in PEM"),
            (Link { join_password_file: not_there, ..good.clone() }, "link.join_password_file"),
            (Link { join_user: String::new(), ..good.clone() }, "no link.join_user"),
            (Link { user: "x".repeat(300), ..good.clone() }, "at most 256 bytes"),
        ] {
            let error = format!("{:#}", wrong.brokers().unwrap_err());
            assert!(error.contains(wanted), "{wanted}: {error}");
        }
    }
}
