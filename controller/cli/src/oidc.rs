//! `muster login --oidc`: somebody logs in at the identity provider's page, in a browser on any machine, and the controller
//! gives a token for it. The controller asks the provider: so this machine need not reach it, nor know the client's secret.
//!
//! Absent: which logins count (`controller/src/oidc.rs`), and where the token is kept (`context.rs`).

use std::time::Duration;

use hyper::Method;
use muster_api::login::{DeviceLogin, LogIn, LoggedIn};
use muster_shared::user_token::UserToken;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::client::{Client, path};
use crate::controller_connection::Way;
use crate::failure::Failure;
use crate::progress::note;

/// The longest wait for somebody at the provider's page, whatever it says.
const LONGEST: Duration = Duration::from_secs(1800);
/// The least and the most pause between two questions.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Waits until the login is confirmed at the provider's page.
pub async fn log_in(way: Way) -> Result<UserToken, Failure> {
    let mut client = Client::over(way);
    let begun = client.send(Method::POST, &path(["login", "device"]), None).await?;
    let begun: DeviceLogin = serde_json::from_value(begun).map_err(|error| no_sense(&error))?;
    say(&begun);
    let end = Instant::now() + Duration::from_secs(begun.expires_in).min(LONGEST);
    let asked = json!(LogIn::DeviceCode(begun.device_code));
    let mut pause = Duration::from_secs(begun.interval);
    loop {
        pause = pause.clamp(PAUSES.0, PAUSES.1);
        if Instant::now() + pause > end {
            let late = "the login was not confirmed in time: begin it again";
            return Err(Failure::timed_out(late));
        }
        sleep(pause).await;
        let answer = client.send(Method::POST, &path(["login"]), Some(&asked)).await?;
        let answer: LoggedIn = serde_json::from_value(answer).map_err(|error| no_sense(&error))?;
        match answer.wait {
            Some(seconds) => pause = pause.max(Duration::from_secs(seconds)),
            None => return answer.token.parse().map_err(|error| no_sense(&error)),
        }
    }
}

/// On stderr, as all that is not the command's result.
fn say(login: &DeviceLogin) {
    note(&format!("open {} in a browser, and type the code {}", login.address, login.user_code));
    if let Some(address) = &login.address_with_code {
        note(&format!("or open {address}"));
    }
    note("confirm no code there that you do not see here: it would log somebody else in as you");
}

fn no_sense(error: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("the controller's answer to the login is not understood: {error}"))
}
