//! `muster stack rollout …`, and how `stack show` draws where one is.
//!
//! Absent: how a rollout goes on, pauses and aborts (`controller/engine/src/rollout/machine.rs`), and its settings in a
//! template (`controller/template/src/rollout.rs`).

use clap::{Args, Subcommand};
use hyper::Method;
use muster_api::stack::{RolloutAction, RolloutView, StackView, SteerRollout};
use muster_shared::StackName;
use serde_json::json;

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Format, print, read, word};

/// Characters of a picture.
const WIDTH: u64 = 30;

/// `stack rollout`
#[derive(Args)]
pub struct Rollout {
    /// The stack
    name: StackName,
    #[command(subcommand)]
    verb: Verb,
}

/// The request about a rollout.
#[derive(Subcommand)]
enum Verb {
    /// Begin nothing more, until it is resumed; what has begun ends
    #[command(after_help = "Example:\n  muster stack rollout web pause")]
    Pause(RolloutArgs),
    /// Go on where it was paused, or stopped when the stack had had its time
    #[command(after_help = "Example:\n  muster stack rollout web resume")]
    Resume(RolloutArgs),
    /// Begin the next batch now: neither the pause nor what is under way is waited for, and a canary counts
    /// as proven
    #[command(after_help = "Example:\n  muster stack rollout web promote")]
    Promote(RolloutArgs),
    /// Begin nothing more: the stack is FAILED, and servers that have not begun keep what they have
    #[command(after_help = "Example:\n  muster stack rollout web abort")]
    Abort(RolloutArgs),
}

#[derive(Args)]
struct RolloutArgs {
    /// The resource with the 'for_each'; all of the stack if left out
    resource: Option<String>,
}

/// Does it, and shows where they are then.
pub async fn run(asked: Rollout, client: &mut Client, format: Format) -> Result<(), Failure> {
    let (action, RolloutArgs { resource }) = match asked.verb {
        Verb::Pause(which) => (RolloutAction::Pause, which),
        Verb::Resume(which) => (RolloutAction::Resume, which),
        Verb::Promote(which) => (RolloutAction::Promote, which),
        Verb::Abort(which) => (RolloutAction::Abort, which),
    };
    let body = json!(SteerRollout { action, resource });
    let at = path(["stacks", asked.name.as_str(), "rollout"]);
    let view = client.send(Method::POST, &at, Some(&body)).await?;
    if format != Format::Table {
        return super::show(&view, format);
    }
    let lines = drawn(&read::<StackView>(&view)?.rollouts).into_iter().map(|line| line + "\n");
    print(&lines.collect::<String>())
}

/// `motd  [####>>......]  8/20 done, 4 under way, 1 failed (more than 2 abort it), next batch in 5 s`
pub fn drawn(rollouts: &[RolloutView]) -> Vec<String> {
    rollouts.iter().map(line).collect()
}

fn line(rollout: &RolloutView) -> String {
    let &RolloutView { total, done, in_flight, failed, .. } = rollout;
    let part = |count: u64| (count * WIDTH).div_ceil(total.max(1)).min(WIDTH);
    let ended = part(done);
    let bad = part(done + failed) - ended;
    let going = part(done + failed + in_flight) - ended - bad;
    let rest = WIDTH - ended - bad - going;
    let picture: String = [('#', ended), ('!', bad), ('>', going), ('.', rest)]
        .into_iter()
        .flat_map(|(mark, count)| (0..count).map(move |_| mark))
        .collect();
    let mut words = vec![format!("{done}/{total} done")];
    if in_flight > 0 {
        words.push(match rollout.in_flight_away {
            0 => format!("{in_flight} under way"),
            away => format!("{in_flight} under way ({away} away)"),
        });
    }
    if failed > 0 {
        words.push(format!("{failed} failed (more than {} abort it)", rollout.max_failures));
    }
    if rollout.away > 0 {
        words.push(format!("{} away", rollout.away));
    }
    words.extend(match (&*rollout.state, &*rollout.stage, rollout.next_in) {
        ("aborted", ..) => Some(format!("aborted: {}", word(&rollout.reason))),
        ("paused", ..) => Some("paused".to_owned()),
        ("timed_out", ..) => Some("stopped when the stack had had its time".to_owned()),
        (_, "canary", Some(seconds)) => Some(format!("the canary has {seconds} s to go")),
        (_, "canary", None) => Some("the canary is under way".to_owned()),
        (_, _, Some(seconds)) => Some(format!("next batch in {seconds} s")),
        _ => None,
    });
    format!("{}  [{picture}]  {}", word(&rollout.resource), words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_rollout_is() {
        let of = |more: serde_json::Value| {
            let mut view = json!({"resource": "motd", "state": "going", "stage": "batch", "reason": "", "total": 20, "done": 8,
                "in_flight": 4, "failed": 1, "waiting": 7, "away": 0, "batch": 4, "max_failures": 2, "next_in": null});
            view.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            drawn(&[read(&view).unwrap()]).remove(0)
        };
        let start =
            "motd  [############!!>>>>>>..........]  8/20 done, 4 under way, 1 failed (more than 2 abort it)";
        assert_eq!(of(json!({})), start);
        assert!(of(json!({"in_flight_away": 1})).contains("8/20 done, 4 under way (1 away), 1 failed"));
        assert_eq!(of(json!({"state": "paused"})), format!("{start}, paused"));
        assert_eq!(
            of(json!({"state": "aborted", "reason": "its canary failed"})),
            format!("{start}, aborted: its canary failed")
        );
        assert_eq!(of(json!({"away": 2, "next_in": 5})), format!("{start}, 2 away, next batch in 5 s"));
        let canary = json!({"stage": "canary", "done": 1, "in_flight": 0, "failed": 0, "next_in": 9});
        assert_eq!(of(canary), "motd  [##............................]  1/20 done, the canary has 9 s to go");
        let none = json!({"total": 0, "done": 0, "in_flight": 0, "failed": 0});
        assert_eq!(of(none), "motd  [..............................]  0/0 done");
    }
}
