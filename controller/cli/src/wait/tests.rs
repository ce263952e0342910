use serde_json::json;

use super::*;
use crate::controller_connection::{Credentials, Way};

/// Asked for (`+`: with rollback) | the stack's id, traversal, action, status | what that means. Traversal 3
/// of stack 7 was asked for.
const VERDICTS: &str = "
UPDATE    | 7 3 UPDATE   IN_PROGRESS | going
UPDATE    | 7 2 CREATE   COMPLETE    | going
UPDATE    | 7 3 UPDATE   COMPLETE    | complete
UPDATE    | 7 3 UPDATE   FAILED      | failed stack 'web': UPDATE FAILED: why
UPDATE    | 7 4 UPDATE   COMPLETE    | failed UPDATE of stack 'web' was pre-empted by UPDATE
UPDATE    | 7 4 ROLLBACK COMPLETE    | failed UPDATE of stack 'web' was pre-empted by ROLLBACK
UPDATE    | 7 4 DELETE   IN_PROGRESS | failed UPDATE of stack 'web' was pre-empted by DELETE
UPDATE    | - 4 DELETE   COMPLETE    | failed stack 'web' was deleted meanwhile
UPDATE    | 8 5 CREATE   IN_PROGRESS | failed stack 'web' was deleted meanwhile
UPDATE +  | 7 3 UPDATE   COMPLETE    | complete
UPDATE +  | 7 3 UPDATE   FAILED      | failing stack 'web': UPDATE FAILED: why
UPDATE +  | 7 4 ROLLBACK IN_PROGRESS | going
UPDATE +  | 7 4 ROLLBACK COMPLETE    | failed stack 'web': UPDATE failed; ROLLBACK COMPLETE: why
UPDATE +  | 7 4 ROLLBACK FAILED      | failed stack 'web': UPDATE failed; ROLLBACK FAILED: why
UPDATE +  | 7 5 UPDATE   IN_PROGRESS | failed UPDATE of stack 'web' was pre-empted by UPDATE
ROLLBACK  | 7 3 ROLLBACK IN_PROGRESS | going
ROLLBACK  | 7 3 ROLLBACK COMPLETE    | complete
DELETE    | 7 3 DELETE   IN_PROGRESS | going
DELETE    | 7 3 DELETE   FAILED      | failed stack 'web': DELETE FAILED: why
DELETE    | - 3 DELETE   COMPLETE    | complete
DELETE    | 8 5 CREATE   IN_PROGRESS | complete
";

#[test]
fn verdicts() {
    for row in VERDICTS.trim().lines() {
        let [asked, state, verdict] = row.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let [id, traversal, action, status] = state.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let operation = Operation {
            name: "web".to_owned(),
            id: "7".to_owned(),
            action: asked.trim_end_matches(" +").to_owned(),
            traversal: 3,
            rollback: asked.ends_with('+'),
            limit: None,
        };
        let view = json!({"id": id, "traversal": traversal.parse::<u64>().unwrap(), "action": action,
            "status": status, "status_reason": "why"});
        let (word, text) = verdict.split_once(' ').unwrap_or((verdict, ""));
        let wanted = match word {
            "going" => Verdict::Going,
            "complete" => Verdict::Complete,
            "failed" => Verdict::Failed(text.to_owned()),
            "failing" => Verdict::Failing(text.to_owned()),
            other => panic!("{other}"),
        };
        assert_eq!(operation.judge(&read(&view).unwrap()), wanted, "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_stays_away_ends_the_wait() {
    let mut client =
        Client::over(Way::new("unix:///nonexistent/muster/api.sock", Credentials::default()).unwrap());
    let (name, id, action) = ("web".to_owned(), "7".to_owned(), "UPDATE".to_owned());
    let mut operation = Operation { name, id, action, traversal: 3, rollback: false, limit: None };
    let failure = wait(&mut client, &operation, &mut None).await.unwrap_err();
    assert_eq!(failure.exit, Exit::Unreachable);
    operation.limit = Some(Limit { since: Instant::now(), time: Duration::from_secs(5), of_stack: false });
    let failure = wait(&mut client, &operation, &mut None).await.unwrap_err();
    assert_eq!(failure.exit, Exit::TimedOut);
}
