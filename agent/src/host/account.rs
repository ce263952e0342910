//! Jobs of `Muster::User` and `Muster::Group`.

use muster_agent_core::{Before, Found, RunError};
use muster_host::account::{AccountFault, GroupBefore, UserBefore};
use muster_shared::model::{Action, Group, Observed, User};

use super::{Host, NotRun, Ran, compared, damaged, decoded, encoded, failed};

impl Host {
    pub(super) async fn capture_user(&self, user: &User, known: Vec<Before>) -> Result<Before, RunError> {
        let known = known.first().map(decoded::<UserBefore>).transpose()?;
        encoded(&self.accounts.observe_user(user, known).await.map_err(account_failed)?)
    }

    pub(super) fn capture_group(&self, group: &Group, known: Vec<Before>) -> Result<Before, RunError> {
        match known.into_iter().next() {
            Some(known) => Ok(known),
            None => encoded(&self.accounts.observe_group(group).map_err(account_failed)?),
        }
    }

    pub(super) async fn user(
        &self,
        action: Action,
        user: &User,
        before: Option<Before>,
    ) -> Result<Ran, NotRun> {
        if action == Action::Delete {
            let before: UserBefore = decoded(&before.ok_or_else(damaged)?)?;
            let restored = self.accounts.restore_user(user, &before).await;
            restored.map_err(|fault| NotRun { error: account_failed(fault), touched: true })?;
            return Ok(Ran { observed: Observed::default(), before: None, touched: true });
        }
        let touched = self.accounts.apply_user(user).await.map_err(not_run)?;
        Ok(Ran { observed: self.numbered(true, &user.name, "uid")?, before: None, touched })
    }

    pub(super) async fn group(
        &self,
        action: Action,
        group: &Group,
        before: Option<Before>,
    ) -> Result<Ran, NotRun> {
        if action == Action::Delete {
            let before: GroupBefore = decoded(&before.ok_or_else(damaged)?)?;
            let restored = self.accounts.restore_group(group, &before).await;
            restored.map_err(|fault| NotRun { error: account_failed(fault), touched: true })?;
            return Ok(Ran { observed: Observed::default(), before: None, touched: true });
        }
        let touched = self.accounts.apply_group(group).await.map_err(not_run)?;
        Ok(Ran { observed: self.numbered(false, &group.name, "gid")?, before: None, touched })
    }

    pub(super) async fn check_user(&self, user: &User) -> Result<Found, RunError> {
        let found = self.accounts.check_user(user).await.map_err(account_failed)?;
        Ok(compared(found.is_empty(), false, format!("{}: {}", user.name, found.join(", "))))
    }

    pub(super) fn check_group(&self, group: &Group) -> Result<Found, RunError> {
        let found = self.accounts.check_group(group).map_err(account_failed)?;
        Ok(compared(found.is_empty(), false, format!("{}: {}", group.name, found.join(", "))))
    }

    fn numbered(&self, is_user: bool, name: &str, attribute: &str) -> Result<Observed, RunError> {
        let number = self.accounts.number(is_user, name).map_err(account_failed)?;
        let number = number.map(|number| number.to_string()).unwrap_or_default();
        let attributes = [("name".to_owned(), name.to_owned()), (attribute.to_owned(), number)];
        Ok(Observed { attributes: attributes.into() })
    }
}

fn not_run(fault: AccountFault) -> NotRun {
    NotRun { touched: fault.may_have_changed(), error: account_failed(fault) }
}

fn account_failed(fault: AccountFault) -> RunError {
    failed(&fault, fault.is_permanent())
}
