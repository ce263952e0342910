//! `Muster::Unit`: a unit of systemd: its file and drop-ins, whether it is enabled, masked and running.
//!
//! ```text
//!  observe ─▶ unmask ─▶ files ─▶ daemon-reload ─▶ enable | disable ─▶ stop | mask ─▶ start | restart | reload ─▶ settle
//!                                      │ what fails from here on restores what was observed
//! ```
//!
//! Each step looks first and does nothing if the state is already right, so that an interrupted change is
//! simply repeated. A unit is restarted if its files or dependencies differ from those of its last start; the
//! agent keeps these beside the state before Muster ([`UnitBefore`]), because systemd does not know them.
//!
//! After a crash between the first and the last step, the next run takes the half-made state for the state
//! before. It ends in the desired state all the same, or fails and reports this.
//!
//! Absent: whether a unit is restarted or reloaded (`unit/run.rs`), and restarts after a correction
//! (`controller/engine/src/drift/unit_restart.rs`). Absent too: units of users, and packages that contain units.

mod error;
mod journal;
mod run;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_shared::ResourceId;
use muster_shared::model::{Content, File, OnDelete, UNIT_FOLDER, Unit, UnitActive};
use serde::{Deserialize, Serialize};

use super::{Tools, named};
use crate::files::{FileBefore, Files, StoredContent};
use crate::resource::{Applied, Resource};
use crate::run::RunId;
use crate::systemd::{Active, Bus, FileVerb, Systemd, UnitState, Verb};
use crate::watch::Places;

pub use error::UnitFault;
use journal::Journal;
pub use run::START_MAX;

type Result<T> = std::result::Result<T, UnitFault>;

/// Units of this node.
#[derive(Clone, Debug)]
pub struct Units {
    systemd: Systemd,
    files: Files,
    folder: PathBuf,
    journal: Journal,
}

/// A unit's former state: all that a job may change of it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitBefore {
    /// Files by path below the folder of units.
    files: BTreeMap<String, FileBefore>,
    /// `enabled`, `disabled`, `masked` and so on; empty if it had no file.
    file_state: String,
    active: bool,
    /// The files and dependencies of the last start by Muster.
    #[serde(default)]
    started: Option<String>,
    /// The files and dependencies of the last reload by Muster.
    #[serde(default)]
    reloaded: Option<String>,
}

impl Resource for Unit {
    type Before = UnitBefore;
    type Fault = UnitFault;

    async fn observe(&self, tools: &Tools) -> Result<UnitBefore> {
        tools.units.capture(self, None).await
    }

    async fn complete(&self, tools: &Tools, known: UnitBefore) -> Result<UnitBefore> {
        tools.units.capture(self, Some(known)).await
    }

    async fn apply(&self, tools: &Tools, run: &RunId, before: UnitBefore) -> Result<Applied<UnitBefore>> {
        let (before, _) = tools.units.apply(run.resource, self, before).await?;
        Ok(Applied { before: Some(before), ..Applied::new([("name", self.name.clone())]) })
    }

    /// A unit that runs is not started again for its files and dependencies: it runs with them.
    fn adopted(&self, before: UnitBefore) -> UnitBefore {
        UnitBefore {
            started: Some(self.start_digest().to_string()),
            reloaded: Some(self.reload_on.clone()),
            ..before
        }
    }

    async fn restore(&self, tools: &Tools, run: &RunId, before: UnitBefore) -> Result<()> {
        tools.units.restore(run.resource, self, &before).await
    }

    async fn check(&self, tools: &Tools) -> Result<Vec<String>> {
        Ok(named(&self.name, tools.units.check(self).await?))
    }

    fn places(&self, _tools: &Tools) -> Places {
        let files = self.files().map(|(path, _)| PathBuf::from(path)).collect();
        Places { files, unit: Some(self.name.clone()) }
    }
}

impl Units {
    /// Units of this server.
    pub fn new(systemd: Systemd, files: Files) -> Self {
        Self { systemd, files, folder: UNIT_FOLDER.into(), journal: Journal::default() }
    }

    /// Uses another folder for files and another command for the journal, for tests.
    pub fn at(self, folder: PathBuf, journal: Vec<String>) -> Self {
        Self { folder, journal: Journal::by(journal), ..self }
    }

    /// The state before `unit` is applied; `known` takes precedence.
    ///
    /// # Errors
    /// The state cannot be read, or could not be restored.
    pub async fn capture(&self, unit: &Unit, known: Option<UnitBefore>) -> Result<UnitBefore> {
        let is_new = known.is_none();
        let mut before = known.unwrap_or_default();
        for (path, _) in unit.files() {
            let name = below(&path);
            if !before.files.contains_key(name) {
                before.files.insert(name.to_owned(), self.read(name).await?);
            }
        }
        if is_new {
            let bus = self.systemd.connect().await?;
            let state = bus.state(&unit.name).await?;
            before.file_state = bus.file_state(&unit.name).await?.unwrap_or_default();
            before.active = is_up(&state);
        }
        Ok(before)
    }

    /// Makes the desired state, and waits until the unit has settled. Returns the record to keep from now on,
    /// and whether anything changed.
    ///
    /// # Errors
    /// The desired state was not reached. Changes were undone, unless the error says otherwise.
    pub async fn apply(
        &self,
        resource: ResourceId,
        unit: &Unit,
        before: UnitBefore,
    ) -> Result<(UnitBefore, bool)> {
        let bus = self.systemd.connect().await?;
        let was = self.observe(&bus, unit, &before).await?;
        let mut touched = false;
        let applied = self.steps(&bus, resource, unit, &before, &was, &mut touched).await;
        if let Err(fault) = applied {
            if !touched {
                return Err(fault);
            }
            // Ends its loop of restarts, and restores the files that it ran with.
            let back = self.reach(&bus, resource, &unit.name, &was).await;
            return Err(fault.after(back.err()));
        }
        let mut before = before;
        before.started = Some(unit.start_digest().to_string());
        before.reloaded = Some(unit.reload_on.clone());
        // Files that no longer belong to this unit were restored.
        before.files.retain(|name, _| unit.files().any(|(path, _)| below(&path) == name));
        Ok((before, touched))
    }

    /// Restores the state before Muster.
    ///
    /// # Errors
    /// The state was not fully restored.
    pub async fn restore(&self, resource: ResourceId, unit: &Unit, before: &UnitBefore) -> Result<()> {
        if unit.on_delete == OnDelete::Keep {
            for (path, _) in unit.files() {
                let name = below(&path);
                let file = File { on_delete: OnDelete::Keep, ..self.file(name) };
                self.files.restore(resource, &file, &FileBefore::Absent).await?;
            }
            return Ok(());
        }
        let bus = self.systemd.connect().await?;
        self.reach(&bus, resource, &unit.name, before).await
    }

    /// Compares and changes nothing. Returns the differences in words.
    ///
    /// # Errors
    /// The state cannot be read.
    pub async fn check(&self, unit: &Unit) -> Result<Vec<String>> {
        let mut differ = Vec::new();
        for (path, content) in unit.files() {
            let file = File { content: Content::Inline(content.into()), ..self.file(below(&path)) };
            let found = self.files.check(&file).await?;
            differ.extend(found.iter().map(|difference| format!("{path}: {difference}")));
        }
        let bus = self.systemd.connect().await?;
        let state = bus.state(&unit.name).await?;
        let file_state = bus.file_state(&unit.name).await?.unwrap_or_default();
        // systemd always reports this for a masked unit.
        if state.needs_reload && state.load != "masked" && differ.is_empty() {
            differ.push("systemd has not read its files since they changed".into());
        }
        if unit.enabled.is_some_and(|enabled| enabled != is_enabled(&file_state)) {
            differ
                .push(if unit.enabled == Some(true) { "it is not enabled" } else { "it is enabled" }.into());
        }
        if unit.masked.is_some_and(|masked| masked != is_masked(&file_state)) {
            differ.push(if unit.masked == Some(true) { "it is not masked" } else { "it is masked" }.into());
        }
        match unit.active {
            Some(UnitActive::Started) if !run::is_as_started(&state) => {
                let lines = self.journal.last(&unit.name).await;
                differ.push(format!("it is {}{}", run::described(&state), journal::quoted(&lines)));
            }
            Some(UnitActive::Stopped) if is_up(&state) => differ.push("it runs".into()),
            _ => {}
        }
        Ok(differ)
    }

    /// The present state of all that a job may change of a unit.
    async fn observe(&self, bus: &Bus, unit: &Unit, before: &UnitBefore) -> Result<UnitBefore> {
        let state = bus.state(&unit.name).await?;
        let mut files = BTreeMap::new();
        let names = unit.files().map(|(path, _)| below(&path).to_owned()).chain(before.files.keys().cloned());
        for name in names.collect::<std::collections::BTreeSet<_>>() {
            let is = self.read(&name).await?;
            files.insert(name, is);
        }
        let file_state = bus.file_state(&unit.name).await?.unwrap_or_default();
        Ok(UnitBefore { files, file_state, active: is_up(&state), started: None, reloaded: None })
    }

    async fn steps(
        &self,
        bus: &Bus,
        resource: ResourceId,
        unit: &Unit,
        before: &UnitBefore,
        was: &UnitBefore,
        touched: &mut bool,
    ) -> Result<()> {
        let name = unit.name.as_str();
        if is_masked(&was.file_state) && (unit.masked == Some(false) || unit.content.is_some()) {
            *touched = true;
            bus.change_files(FileVerb::Unmask, &[name]).await?;
        }
        let written = self.write(resource, unit, before, was, touched).await?;
        let state = bus.state(name).await?;
        if written || *touched || (state.needs_reload && state.load != "masked") {
            *touched = true;
            bus.reload().await?;
        }
        let state = bus.state(name).await?;
        if !matches!(state.load.as_str(), "loaded" | "masked") && unit.masked != Some(true) {
            return Err(UnitFault::of_load(name, &state));
        }
        self.enable(bus, unit, touched).await?;
        if unit.masked == Some(true) && !is_masked(&was.file_state) {
            *touched = true;
            if is_up(&state) {
                self.tell(bus, Verb::Stop, name).await?;
            }
            bus.change_files(FileVerb::Mask, &[name]).await?;
            bus.reload().await?;
        }
        self.activate(bus, unit, before, written, touched).await
    }

    /// Writes the unit's files, and restores those that no longer belong to it. Returns whether any
    /// file differed.
    async fn write(
        &self,
        resource: ResourceId,
        unit: &Unit,
        before: &UnitBefore,
        was: &UnitBefore,
        touched: &mut bool,
    ) -> Result<bool> {
        let mut wanted: BTreeMap<&str, FileBefore> =
            before.files.iter().map(|(name, file)| (name.as_str(), file.clone())).collect();
        let files: Vec<(String, &str)> = unit.files().collect();
        for (path, content) in &files {
            wanted.insert(below(path), plain(content));
        }
        let mut written = false;
        for (name, file) in wanted {
            if was.files.get(name) != Some(&file) {
                (*touched, written) = (true, true);
                self.put(resource, name, &file).await?;
            }
        }
        Ok(written)
    }

    async fn enable(&self, bus: &Bus, unit: &Unit, touched: &mut bool) -> Result<()> {
        let name = unit.name.as_str();
        let Some(wanted) = unit.enabled else { return Ok(()) };
        let is = bus.file_state(name).await?.unwrap_or_default();
        if wanted == is_enabled(&is) {
            return Ok(());
        }
        *touched = true;
        bus.change_files(if wanted { FileVerb::Enable } else { FileVerb::Disable }, &[name]).await?;
        bus.reload().await?;
        let is = bus.file_state(name).await?.unwrap_or_default();
        if wanted == is_enabled(&is) {
            Ok(())
        } else {
            Err(UnitFault::Enabled { unit: name.into(), is, wanted })
        }
    }

    /// Restores the former state from any present one.
    async fn reach(&self, bus: &Bus, resource: ResourceId, name: &str, was: &UnitBefore) -> Result<()> {
        let is = bus.state(name).await?;
        let has_file = !was.file_state.is_empty();
        let mut written = false;
        if is.active != Active::Inactive && !was.active {
            self.tell(bus, Verb::Stop, name).await?;
        }
        let now = bus.file_state(name).await?.unwrap_or_default();
        if is_enabled(&now) && !is_enabled(&was.file_state) {
            bus.change_files(FileVerb::Disable, &[name]).await?;
        }
        if is_masked(&now) && !is_masked(&was.file_state) {
            bus.change_files(FileVerb::Unmask, &[name]).await?;
        }
        for (path, file) in &was.files {
            if self.read(path).await? != *file {
                written = true;
                self.put(resource, path, file).await?;
            }
        }
        bus.reload().await?;
        let now = bus.file_state(name).await?.unwrap_or_default();
        if is_enabled(&was.file_state) && !is_enabled(&now) {
            bus.change_files(FileVerb::Enable, &[name]).await?;
        }
        if is_masked(&was.file_state) && !is_masked(&now) {
            bus.change_files(FileVerb::Mask, &[name]).await?;
        }
        bus.reload().await?;
        if is.active == Active::Failed || !has_file {
            // A unit that is no longer loaded has nothing to forget.
            let forgotten = bus.reset_failed(name).await;
            forgotten.or_else(|error| if error.is_no_such_unit() { Ok(()) } else { Err(error) })?;
        }
        let now = bus.state(name).await?;
        if was.active && (written || now.active != Active::Active) {
            self.tell(bus, Verb::Restart, name).await?;
        }
        Ok(())
    }

    async fn read(&self, name: &str) -> Result<FileBefore> {
        let path = self.folder.join(name);
        // A masked unit is a link to nothing, and a drop-in's folder may not exist.
        let masked = path.read_link().is_ok_and(|to| to == Path::new("/dev/null"));
        if masked || path.parent().is_some_and(|folder| !folder.exists()) {
            return Ok(FileBefore::Absent);
        }
        let file = self.files.capture(&self.file(name)).await?;
        if file.aside().is_some() { Err(UnitFault::TooLarge(path)) } else { Ok(file) }
    }

    async fn put(&self, resource: ResourceId, name: &str, file: &FileBefore) -> Result<()> {
        let path = self.folder.join(name);
        let folder = path.parent().filter(|folder| *folder != self.folder);
        let make = |source| UnitFault::Folder { path: path.clone(), source };
        if let (Some(folder), FileBefore::Present { .. }) = (folder, file) {
            std::fs::create_dir_all(folder).map_err(make)?;
        }
        if folder.is_some_and(|folder| !folder.exists()) {
            return Ok(());
        }
        self.files.restore(resource, &self.file(name), file).await?;
        if let (Some(folder), FileBefore::Absent) = (folder, file) {
            // The folder may hold files of others; systemd does not mind an empty one.
            let _ = std::fs::remove_dir(folder);
        }
        Ok(())
    }

    fn file(&self, name: &str) -> File {
        File {
            path: self.folder.join(name).to_string_lossy().into_owned(),
            content: Content::Inline(Vec::new()),
            mode: MODE,
            owner: None,
            group: None,
            on_delete: OnDelete::Restore,
        }
    }
}

/// Everybody reads units.
const MODE: u32 = 0o644;

fn plain(content: &str) -> FileBefore {
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    FileBefore::Present { mode: MODE, uid, gid, content: StoredContent::Inline(content.into()) }
}

fn below(path: &str) -> &str {
    path.strip_prefix(UNIT_FOLDER).map_or(path, |rest| rest.trim_start_matches('/'))
}

fn is_up(state: &UnitState) -> bool {
    matches!(state.active, Active::Active | Active::Reloading | Active::Activating)
}

fn is_enabled(file_state: &str) -> bool {
    matches!(file_state, "enabled" | "enabled-runtime" | "alias")
}

fn is_masked(file_state: &str) -> bool {
    matches!(file_state, "masked" | "masked-runtime")
}
