//! `/etc/passwd`, `/etc/group` and `/etc/shadow`, as far as they are needed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::ops::RangeInclusive;
use std::path::Path;

use muster_shared::model::{Group, OnDelete, User};

use super::{AccountFault, GroupState, Result, UserState};

/// The numbers that distributions give to people.
const OF_PEOPLE: RangeInclusive<u32> = 1_000..=59_999;
/// So many users, and so many groups, are described: each is looked for in the whole files.
const PEOPLE_MAX: usize = 256;
/// A server with 100,000 accounts fits in.
const SIZE_MAX: u64 = 16 * 1024 * 1024;

/// The accounts of the server's own files, read at one time.
pub(super) struct Etc {
    passwd: String,
    group: String,
    shadow: String,
}

impl Etc {
    pub(super) fn read() -> Result<Self> {
        Self::read_from(Path::new("/etc"))
    }

    pub(super) fn read_from(folder: &Path) -> Result<Self> {
        let read = |name: &str| {
            let path = folder.join(name);
            let failed = |source| AccountFault::File { path: path.clone(), source };
            let mut text = Vec::new();
            match File::open(&path) {
                // Every server has the other files; without `/etc/shadow`, passwords are stored elsewhere.
                Err(error) if error.kind() == ErrorKind::NotFound && name == "shadow" => {}
                opened => {
                    opened.map_err(failed)?.take(SIZE_MAX).read_to_end(&mut text).map_err(failed)?;
                }
            }
            if text.len() as u64 == SIZE_MAX {
                return Err(failed(io::Error::other("it is too large")));
            }
            Ok(String::from_utf8_lossy(&text).into_owned())
        };
        Ok(Self { passwd: read("passwd")?, group: read("group")?, shadow: read("shadow")? })
    }

    pub(super) fn user(&self, name: &str) -> Option<UserState> {
        let [_, _, uid, gid, comment, home, shell] = row::<7>(&self.passwd, name)?;
        let password = row::<2>(&self.shadow, name).map_or("!", |[_, password]| password);
        let groups = self.group.lines().filter_map(fields::<4>);
        let groups = groups.filter(|[_, _, _, members]| members.split(',').any(|member| member == name));
        Some(UserState {
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            groups: groups.map(|[group, ..]| group.to_owned()).collect(),
            home: home.to_owned(),
            shell: shell.to_owned(),
            comment: comment.to_owned(),
            password: password.to_owned(),
            keys: None,
        })
    }

    pub(super) fn group(&self, name: &str) -> Option<GroupState> {
        let [_, _, gid, members] = row::<4>(&self.group, name)?;
        let members: BTreeSet<String> =
            members.split(',').filter(|member| !member.is_empty()).map(str::to_owned).collect();
        Some(GroupState { gid: gid.parse().ok()?, members })
    }

    /// Accounts with the numbers of people, not of the distribution or of services.
    pub(super) fn of_people(&self) -> (Vec<Group>, Vec<User>, usize) {
        let groups = self.group.lines().filter_map(fields::<4>).filter(|[_, _, gid, _]| is_of_people(gid));
        let more_groups = groups.clone().count().saturating_sub(PEOPLE_MAX);
        let groups = groups.take(PEOPLE_MAX);
        let groups = groups.filter_map(|[name, ..]| {
            let GroupState { gid, .. } = self.group(name)?;
            let on_delete = OnDelete::Restore;
            Some(Group { name: name.to_owned(), gid: Some(gid), system: false, members: None, on_delete })
        });
        let users = self.passwd.lines().filter_map(fields::<7>).filter(|[_, _, uid, ..]| is_of_people(uid));
        let more_users = users.clone().count().saturating_sub(PEOPLE_MAX);
        let users = users.take(PEOPLE_MAX);
        let users = users.filter_map(|[name, ..]| {
            let UserState { uid, gid, groups, home, shell, comment, .. } = self.user(name)?;
            Some(User {
                name: name.to_owned(),
                uid: Some(uid),
                group: Some(self.group_name(gid)?),
                groups: Some(groups.into_iter().collect()),
                home: Some(home),
                shell: Some(shell),
                comment: Some(comment).filter(|comment| !comment.is_empty()),
                system: false,
                password_hash: None,
                authorized_keys: None,
                locked: None,
                on_delete: OnDelete::Restore,
            })
        });
        (
            groups.filter(|group| group.check().is_ok()).collect(),
            users.filter(|user| user.check().is_ok()).collect(),
            more_groups + more_users,
        )
    }

    pub(super) fn group_name(&self, gid: u32) -> Option<String> {
        let mut groups = self.group.lines().filter_map(fields::<4>);
        groups.find(|[_, _, number, _]| number.parse() == Ok(gid)).map(|[name, ..]| name.to_owned())
    }
}

fn is_of_people(number: &str) -> bool {
    number.parse().is_ok_and(|number: u32| OF_PEOPLE.contains(&number))
}

fn row<'a, const N: usize>(text: &'a str, name: &str) -> Option<[&'a str; N]> {
    text.lines().filter_map(fields::<N>).find(|fields| fields[0] == name)
}

fn fields<const N: usize>(line: &str) -> Option<[&str; N]> {
    let mut fields = line.split(':');
    let mut row = [""; N];
    for field in &mut row {
        *field = fields.next()?;
    }
    Some(row)
}
