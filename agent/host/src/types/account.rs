//! `Muster::User` and `Muster::Group`: accounts in the server's own files, by shadow-utils.
//!
//! The agent reads `/etc/passwd`, `/etc/group` and `/etc/shadow`, and changes them only through useradd
//! and the like, which lock them. Secrets go to a command's standard input, never into its arguments.
//! Files in a user's home are read and written **as that user**: a link there leads nowhere that the user
//! could not write.
//!
//! Each step looks first, so that an interrupted change is simply repeated. Absent: accounts of directories
//! (LDAP), and files in a home other than the keys.

mod error;
mod files;
mod tool;

use std::collections::BTreeSet;
use std::path::PathBuf;

use muster_shared::model::{Group, OnDelete, User};
use serde::{Deserialize, Serialize};

use super::{Tools, named};
use crate::resource::{Applied, Resource};
use crate::run::RunId;
use crate::watch::Places;

pub use error::AccountFault;
use files::Etc;
use tool::Tool;

type Result<T> = std::result::Result<T, AccountFault>;

/// Users and groups of this server.
#[derive(Clone, Debug, Default)]
pub struct Accounts;

/// A user's former state. It holds the password hash: only the ledger may store it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserBefore {
    /// `None` if the user did not exist.
    user: Option<UserState>,
    /// If the user did not exist: the number of a group of that name, which userdel removes along with
    /// the user.
    group: Option<u32>,
}

/// A group's former state; `None` if it did not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupBefore(Option<GroupState>);

/// The properties of a user that are compared and changed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct UserState {
    uid: u32,
    gid: u32,
    groups: BTreeSet<String>,
    home: String,
    shell: String,
    comment: String,
    /// The field of `/etc/shadow`: a hash, with `!` before it where the user is locked.
    password: String,
    /// Present only if the keys are managed.
    keys: Option<Keys>,
}

/// The content of a user's `authorized_keys`. The user controls the file, so nothing there may fail the
/// whole resource.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(Debug))]
enum Keys {
    Absent,
    /// A folder, a pipe, a file that is too large or unreadable: moved aside before keys are written.
    Unknown,
    Are(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GroupState {
    gid: u32,
    members: BTreeSet<String>,
}

impl Resource for User {
    type Before = UserBefore;
    type Fault = AccountFault;

    async fn observe(&self, tools: &Tools) -> Result<UserBefore> {
        tools.accounts.observe_user(self, None).await
    }

    async fn complete(&self, tools: &Tools, known: UserBefore) -> Result<UserBefore> {
        tools.accounts.observe_user(self, Some(known)).await
    }

    async fn apply(&self, tools: &Tools, _run: &RunId, _before: UserBefore) -> Result<Applied<UserBefore>> {
        tools.accounts.apply_user(self).await?;
        let uid = tools.accounts.number(true, &self.name)?.map(|uid| uid.to_string());
        Ok(Applied::new([("name", self.name.clone()), ("uid", uid.unwrap_or_default())]))
    }

    async fn restore(&self, tools: &Tools, _run: &RunId, before: UserBefore) -> Result<()> {
        tools.accounts.restore_user(self, &before).await
    }

    async fn check(&self, tools: &Tools) -> Result<Vec<String>> {
        Ok(named(&self.name, tools.accounts.check_user(self).await?))
    }

    fn places(&self, _tools: &Tools) -> Places {
        Places { files: ["/etc/passwd", "/etc/shadow", "/etc/group"].map(PathBuf::from).into(), unit: None }
    }
}

impl Resource for Group {
    type Before = GroupBefore;
    type Fault = AccountFault;

    async fn observe(&self, tools: &Tools) -> Result<GroupBefore> {
        tools.accounts.observe_group(self)
    }

    async fn apply(&self, tools: &Tools, _run: &RunId, _: GroupBefore) -> Result<Applied<GroupBefore>> {
        tools.accounts.apply_group(self).await?;
        let gid = tools.accounts.number(false, &self.name)?.map(|gid| gid.to_string());
        Ok(Applied::new([("name", self.name.clone()), ("gid", gid.unwrap_or_default())]))
    }

    async fn restore(&self, tools: &Tools, _run: &RunId, before: GroupBefore) -> Result<()> {
        tools.accounts.restore_group(self, &before).await
    }

    async fn check(&self, tools: &Tools) -> Result<Vec<String>> {
        Ok(named(&self.name, tools.accounts.check_group(self)?))
    }

    fn places(&self, _tools: &Tools) -> Places {
        Places { files: vec!["/etc/group".into()], unit: None }
    }
}

impl Accounts {
    /// The present state, for [`Accounts::restore_user`]; `known` takes precedence.
    ///
    /// # Errors
    /// The state cannot be read.
    pub async fn observe_user(&self, user: &User, known: Option<UserBefore>) -> Result<UserBefore> {
        let is = user_state(user).await?;
        let Some(mut before) = known else { return Ok(before(&Etc::read()?, &user.name, is)) };
        if let (Some(before), Some(is)) = (&mut before.user, is) {
            // The keys were not managed before.
            before.keys = before.keys.take().or(is.keys);
        }
        Ok(before)
    }

    /// Makes the desired state and reads it back. Returns whether anything changed.
    ///
    /// # Errors
    /// The desired state was not reached. Changes were undone, unless the error says otherwise.
    pub async fn apply_user(&self, user: &User) -> Result<bool> {
        let is = user_state(user).await?;
        if is.as_ref().is_some_and(|is| is.uid == 0) {
            return Err(AccountFault::Root(user.name.clone()));
        }
        let etc = Etc::read()?;
        if differences(&etc, user, is.as_ref()).is_empty() {
            return Ok(false);
        }
        let was = before(&etc, &user.name, is);
        let applied = match change_user(user, was.user.as_ref()).await {
            Ok(()) => match self.check_user(user).await {
                Ok(differ) if differ.is_empty() => Ok(true),
                Ok(differ) => {
                    Err(AccountFault::Differs { name: user.name.clone(), differ: differ.join(", ") })
                }
                Err(fault) => Err(fault),
            },
            Err(fault) => Err(fault),
        };
        match applied {
            Err(fault) if user_state(user).await.ok().as_ref() != Some(&was.user) => {
                Err(fault.after(reach_user(user, &was).await.err()))
            }
            applied => applied,
        }
    }

    /// Restores the state before Muster. A home stays.
    ///
    /// # Errors
    /// The state was not restored.
    pub async fn restore_user(&self, user: &User, before: &UserBefore) -> Result<()> {
        if user.on_delete == OnDelete::Keep {
            return Ok(());
        }
        reach_user(user, before).await
    }

    /// Compares and changes nothing. Returns the differences in words, without secrets.
    ///
    /// # Errors
    /// The state cannot be read.
    pub async fn check_user(&self, user: &User) -> Result<Vec<String>> {
        let is = user_state(user).await?;
        Ok(differences(&Etc::read()?, user, is.as_ref()))
    }

    /// The present state, for [`Accounts::restore_group`].
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn observe_group(&self, group: &Group) -> Result<GroupBefore> {
        Ok(GroupBefore(Etc::read()?.group(&group.name)))
    }

    /// Makes the desired state and reads it back. Returns whether anything changed.
    ///
    /// # Errors
    /// The desired state was not reached. Changes were undone, unless the error says otherwise.
    pub async fn apply_group(&self, group: &Group) -> Result<bool> {
        let was = Etc::read()?.group(&group.name);
        if was.as_ref().is_some_and(|is| is.gid == 0) {
            return Err(AccountFault::Root(group.name.clone()));
        }
        if group_differences(group, was.as_ref()).is_empty() {
            return Ok(false);
        }
        let members = group.members.as_ref().map(|members| members.iter().cloned().collect());
        let mut applied = change_group(group, was.as_ref(), group.gid, members).await;
        if applied.is_ok() {
            let differ = self.check_group(group)?;
            if !differ.is_empty() {
                applied = Err(AccountFault::Differs { name: group.name.clone(), differ: differ.join(", ") });
            }
        }
        match applied {
            Err(fault) if Etc::read().is_ok_and(|etc| etc.group(&group.name) != was) => {
                Err(fault.after(reach_group(group, was.as_ref()).await.err()))
            }
            applied => applied.map(|()| true),
        }
    }

    /// Restores the state before Muster.
    ///
    /// # Errors
    /// The state was not restored.
    pub async fn restore_group(&self, group: &Group, before: &GroupBefore) -> Result<()> {
        if group.on_delete == OnDelete::Keep {
            return Ok(());
        }
        reach_group(group, before.0.as_ref()).await
    }

    /// Compares and changes nothing. Returns the differences in words.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn check_group(&self, group: &Group) -> Result<Vec<String>> {
        Ok(group_differences(group, Etc::read()?.group(&group.name).as_ref()))
    }

    /// Groups and users of people, by their numbers, without passwords and keys, and how many more there are. Each
    /// equals what is there.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn of_people(&self) -> Result<(Vec<Group>, Vec<User>, usize)> {
        Ok(Etc::read()?.of_people())
    }

    /// The number of an existing user or group.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn number(&self, is_user: bool, name: &str) -> Result<Option<u32>> {
        let etc = Etc::read()?;
        let group = || etc.group(name).map(|group| group.gid);
        Ok(if is_user { etc.user(name).map(|user| user.uid) } else { group() })
    }
}

async fn user_state(user: &User) -> Result<Option<UserState>> {
    let Some(mut is) = Etc::read()?.user(&user.name) else { return Ok(None) };
    if user.authorized_keys.is_some() {
        is.keys = Some(tool::read_keys(is.uid, is.gid, &is.home).await);
    }
    Ok(Some(is))
}

fn before(etc: &Etc, name: &str, user: Option<UserState>) -> UserBefore {
    let group = if user.is_none() { etc.group(name).map(|group| group.gid) } else { None };
    UserBefore { user, group }
}

fn differences(etc: &Etc, user: &User, is: Option<&UserState>) -> Vec<String> {
    let Some(is) = is else { return vec!["there is no such user".into()] };
    let mut differ = Vec::new();
    let mut text = |what: &str, wanted: Option<&str>, is: &str| {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != is) {
            differ.push(format!("its {what} is '{is}', and should be '{wanted}'"));
        }
    };
    text("home", user.home.as_deref(), &is.home);
    text("shell", user.shell.as_deref(), &is.shell);
    text("comment", user.comment.as_deref(), &is.comment);
    let group = etc.group_name(is.gid).unwrap_or_else(|| is.gid.to_string());
    text("group", user.group.as_deref(), &group);
    let uid = user.uid.map(|uid| uid.to_string());
    text("uid", uid.as_deref(), &is.uid.to_string());
    if let Some(wanted) = &user.groups {
        let wanted: BTreeSet<String> = wanted.iter().cloned().collect();
        if wanted != is.groups {
            let joined = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
            differ.push(format!(
                "its groups are '{}', and should be '{}'",
                joined(&is.groups),
                joined(&wanted)
            ));
        }
    }
    if user.password_hash.as_ref().is_some_and(|hash| hash.reveal() != unlocked(&is.password)) {
        differ.push("its password is another".into());
    }
    let is_locked = is.password.starts_with('!');
    if user.locked.is_some_and(|locked| locked != is_locked) {
        differ.push(if is_locked { "it is locked" } else { "it is not locked" }.into());
    }
    if user.authorized_keys.as_ref().is_some_and(|keys| is.keys != Some(Keys::Are(lines(keys)))) {
        differ.push("its authorized keys are others".into());
    }
    differ
}

async fn change_user(user: &User, is: Option<&UserState>) -> Result<()> {
    let mut options: Vec<String> = Vec::new();
    let mut option = |flag: &str, wanted: Option<String>, is: Option<String>| {
        if let Some(wanted) = wanted.filter(|wanted| Some(wanted) != is.as_ref()) {
            options.extend([flag.to_owned(), wanted]);
        }
    };
    let etc = Etc::read()?;
    option("-u", user.uid.map(|uid| uid.to_string()), is.map(|is| is.uid.to_string()));
    option("-g", user.group.clone(), is.and_then(|is| etc.group_name(is.gid)));
    let joined = |names: &mut dyn Iterator<Item = &String>| names.cloned().collect::<Vec<_>>().join(",");
    let groups = user.groups.as_ref().map(|groups| joined(&mut groups.iter()));
    option(
        "-G",
        groups.filter(|groups| is.is_some() || !groups.is_empty()),
        is.map(|is| joined(&mut is.groups.iter())),
    );
    option("-d", user.home.clone(), is.map(|is| is.home.clone()));
    option("-s", user.shell.clone(), is.map(|is| is.shell.clone()));
    option("-c", user.comment.clone(), is.map(|is| is.comment.clone()));
    match is {
        None => {
            let kind: &[&str] = if user.system { &["-r", "-M"] } else { &["-m"] };
            let words = kind.iter().map(|word| (*word).to_owned()).chain(options).chain([user.name.clone()]);
            tool::run(Tool::UserAdd, words).await?;
        }
        Some(_) if options.is_empty() => {}
        Some(is) => {
            if options.iter().any(|option| option == "-u" || option == "-d") {
                tool::nobody_runs(&user.name, is.uid)?;
            }
            tool::run(Tool::UserMod, options.into_iter().chain([user.name.clone()])).await?;
        }
    }
    let now = Etc::read()?.user(&user.name).ok_or_else(|| AccountFault::gone(&user.name))?;
    let password = password_field(user, &now.password)?;
    if password != now.password {
        tool::set_password(&user.name, &password).await?;
    }
    if let Some(keys) = &user.authorized_keys {
        // Unreadable keys are kept, too.
        let aside = is.is_some_and(|is| is.keys == Some(Keys::Unknown));
        tool::write_keys(&user.name, now.uid, now.gid, &now.home, &lines(keys), aside).await?;
    }
    Ok(())
}

/// The desired field of `/etc/shadow`. Without `locked`, a locked hash stays locked; a bare `!`, as useradd
/// leaves it, only means that there is no password yet.
fn password_field(user: &User, now: &str) -> Result<String> {
    let was_locked = now.starts_with('!');
    let hash = user.password_hash.as_ref().map_or_else(|| unlocked(now), |hash| hash.reveal());
    let is_bare = matches!(unlocked(now), "" | "*");
    let is_locked = user.locked.unwrap_or(was_locked && (user.password_hash.is_none() || !is_bare));
    if user.locked == Some(false) && !hash.starts_with('$') {
        return Err(AccountFault::NoPassword(user.name.clone()));
    }
    Ok(match is_locked {
        _ if is_locked == was_locked && hash == unlocked(now) => now.to_owned(),
        true => format!("!{hash}"),
        false => hash.to_owned(),
    })
}

/// Restores the former state from any present one: first shadow-utils' part, last the part that the user
/// could obstruct.
async fn reach_user(user: &User, was: &UserBefore) -> Result<()> {
    let name = &user.name;
    let etc = Etc::read()?;
    let is = etc.user(name);
    match (is, &was.user) {
        (is, None) => {
            let has_group = is.is_none() || etc.group(name).is_some();
            if let Some(is) = is {
                tool::nobody_runs(name, is.uid)?;
                tool::run(Tool::UserDel, [name.clone()]).await?;
            }
            match was.group {
                Some(gid) if has_group && Etc::read()?.group(name).is_none() => {
                    tool::run(Tool::GroupAdd, ["-g".into(), gid.to_string(), name.clone()]).await
                }
                _ => Ok(()),
            }
        }
        (is, Some(was)) => {
            let joined = was.groups.iter().cloned().collect::<Vec<_>>().join(",");
            let options = [
                ("-u", was.uid.to_string(), is.as_ref().map(|is| is.uid.to_string())),
                ("-g", was.gid.to_string(), is.as_ref().map(|is| is.gid.to_string())),
                ("-G", joined, is.as_ref().map(|is| is.groups.iter().cloned().collect::<Vec<_>>().join(","))),
                ("-d", was.home.clone(), is.as_ref().map(|is| is.home.clone())),
                ("-s", was.shell.clone(), is.as_ref().map(|is| is.shell.clone())),
                ("-c", was.comment.clone(), is.as_ref().map(|is| is.comment.clone())),
            ];
            let options: Vec<String> = options
                .into_iter()
                .filter(|(_, was, is)| Some(was) != is.as_ref())
                .flat_map(|(flag, was, _)| [flag.to_owned(), was])
                .collect();
            match &is {
                None => {
                    tool::run(Tool::UserAdd, ["-M".into()].into_iter().chain(options).chain([name.clone()]))
                        .await?
                }
                Some(_) if options.is_empty() => {}
                Some(is) => {
                    if options.iter().any(|option| option == "-u" || option == "-d") {
                        tool::nobody_runs(name, is.uid)?;
                    }
                    tool::run(Tool::UserMod, options.into_iter().chain([name.clone()])).await?;
                }
            }
            if is.as_ref().is_none_or(|is| is.password != was.password) {
                tool::set_password(name, &was.password).await?;
            }
            let Some(keys) = &was.keys else { return Ok(()) };
            if tool::read_keys(was.uid, was.gid, &was.home).await == *keys {
                return Ok(());
            }
            tool::restore_keys(name, was.uid, was.gid, &was.home, keys).await
        }
    }
}

fn group_differences(group: &Group, is: Option<&GroupState>) -> Vec<String> {
    let Some(is) = is else { return vec!["there is no such group".into()] };
    let mut differ = Vec::new();
    if let Some(gid) = group.gid.filter(|gid| *gid != is.gid) {
        differ.push(format!("its gid is {}, and should be {gid}", is.gid));
    }
    if group.members.as_ref().is_some_and(|members| !members.iter().eq(&is.members)) {
        let is = is.members.iter().cloned().collect::<Vec<_>>().join(", ");
        differ.push(format!("its members are others: '{is}'"));
    }
    differ
}

async fn change_group(
    group: &Group,
    is: Option<&GroupState>,
    gid: Option<u32>,
    members: Option<BTreeSet<String>>,
) -> Result<()> {
    let name = group.name.clone();
    let number = gid.filter(|gid| is.is_none_or(|is| is.gid != *gid));
    let number = number.map(|gid| ["-g".to_owned(), gid.to_string()]);
    match is {
        None => {
            let system = group.system.then(|| "-r".to_owned());
            let words = system.into_iter().chain(number.into_iter().flatten()).chain([name.clone()]);
            tool::run(Tool::GroupAdd, words).await?;
        }
        Some(_) => {
            if let Some(number) = number {
                tool::run(Tool::GroupMod, number.into_iter().chain([name.clone()])).await?;
            }
        }
    }
    if let Some(members) =
        members.filter(|members| is.map_or(!members.is_empty(), |is| is.members != *members))
    {
        let joined = members.into_iter().collect::<Vec<_>>().join(",");
        tool::run(Tool::GPasswd, ["-M".into(), joined, name]).await?;
    }
    Ok(())
}

async fn reach_group(group: &Group, was: Option<&GroupState>) -> Result<()> {
    let is = Etc::read()?.group(&group.name);
    match (is, was) {
        (None, None) => Ok(()),
        (Some(_), None) => tool::run(Tool::GroupDel, [group.name.clone()]).await,
        (is, Some(was)) => change_group(group, is.as_ref(), Some(was.gid), Some(was.members.clone())).await,
    }
}

/// The hash, whether the user is locked or not.
fn unlocked(password: &str) -> &str {
    password.trim_start_matches('!')
}

fn lines(keys: &[String]) -> Vec<u8> {
    keys.iter().flat_map(|key| [key.trim().as_bytes(), b"\n"]).flatten().copied().collect()
}

#[cfg(test)]
mod tests;
