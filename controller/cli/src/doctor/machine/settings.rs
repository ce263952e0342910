//! The controller's settings, as far as the checks of its machine need them. The whole file is the controller's to
//! judge (`controller/src/config.rs`).

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The path of the file without a flag.
pub const DEFAULT_FILE: &str = "/etc/muster/controller.toml";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Settings {
    pub controller: Controller,
    link: Link,
}

#[derive(Debug, Deserialize)]
#[serde(default)]
pub struct Controller {
    pub data_dir: PathBuf,
    pub listen: SocketAddr,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Link {
    url: String,
}

impl Default for Controller {
    fn default() -> Self {
        Self { data_dir: "/var/lib/muster".into(), listen: SocketAddr::from(([0, 0, 0, 0], 8883)) }
    }
}

/// The outcome of reading the settings.
#[derive(Debug)]
pub enum Outcome {
    Read(Box<Settings>),
    /// This is not the controller's machine, or not for this user to look at.
    Elsewhere,
    Wrong(String),
}

impl Settings {
    /// Without a file that an operator gave, a machine with neither file nor data directory is not the controller's.
    pub fn read(file: &Path, is_given: bool) -> Outcome {
        let wrong = |why: &dyn std::fmt::Display| Outcome::Wrong(format!("{}: {why}", file.display()));
        match fs::read_to_string(file) {
            Ok(text) => match toml::from_str(&text) {
                Ok(settings) => Outcome::Read(Box::new(settings)),
                Err(error) => wrong(&error.message()),
            },
            Err(error) if is_given => wrong(&error),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let settings = Self::default();
                if settings.controller.data_dir.exists() {
                    Outcome::Read(Box::new(settings))
                } else {
                    Outcome::Elsewhere
                }
            }
            Err(_) => Outcome::Elsewhere,
        }
    }

    /// Agents connect to the controller itself.
    pub fn is_direct(&self) -> bool {
        matches!(self.link.url.as_str(), "" | "direct")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_and_its_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("controller.toml");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            Settings::read(&file, true)
        };
        let Outcome::Read(settings) = read("") else { panic!("refused") };
        assert_eq!(settings.controller.data_dir, Path::new("/var/lib/muster"));
        assert!(settings.is_direct() && settings.controller.listen.port() == 8883);
        let Outcome::Read(settings) = read(
            "[controller]\ndata_dir = '/x'\nlisten = '[::]:1'\nname = 'c'\n[link]\nurl = 'mqtts://a:1'\n[log]\n",
        ) else {
            panic!("refused")
        };
        assert_eq!(
            (settings.controller.data_dir.as_path(), settings.controller.listen.port()),
            (Path::new("/x"), 1)
        );
        assert!(!settings.is_direct());
        assert!(matches!(read("listen"), Outcome::Wrong(why) if why.contains("controller.toml: ")));
        fs::remove_file(&file).unwrap();
        assert!(matches!(Settings::read(&file, true), Outcome::Wrong(_)));
    }
}
