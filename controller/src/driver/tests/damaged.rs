//! Records that cannot be read hold up what they belong to, and nothing else.

use super::*;

#[test]
fn one_revision_that_cannot_be_read_holds_up_its_own_stack_only() {
    let mut bench = Bench::new();
    bench.turn(create(1)).unwrap();
    let file = bench.dir.path().join("muster.db");
    let db = rusqlite::Connection::open(&file).unwrap();
    db.execute("UPDATE revisions SET template = zeroblob(50)", []).unwrap();
    bench.driver.turns.reload(MonoTime::default()).unwrap();
    let view = bench.driver.turns.view().stack_view(&name()).unwrap();
    assert_eq!(view.status, "FAILED");
    assert!(view.status_reason.contains("cannot be read"), "{}", view.status_reason);
    bench.turn(Request::Delete { name: name() }).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    for name in ["muster.db", "muster.db-wal"] {
        let mode = bench.dir.path().join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

/// Damages a row of the database, as the controller finds it at its next start.
fn damages(bench: &mut Bench, sql: &str) {
    let db = rusqlite::Connection::open(bench.dir.path().join("muster.db")).unwrap();
    assert_eq!(db.execute(sql, []), Ok(1), "{sql}");
    bench.driver.turns.reload(MonoTime::default()).unwrap();
}

#[test]
fn a_resource_that_cannot_be_read_holds_up_its_own_stack_only() {
    for column in ["spec = zeroblob(40)", "physical_id = 'x'", "type = 'Nobody::Knows'", "attempt = 'x'"] {
        let mut bench = Bench::new();
        bench.turn(create(1)).unwrap();
        let Request::Create { source, options, .. } = create(2) else { panic!("a create") };
        let other: StackName = "other".parse().unwrap();
        let create_other = Request::Create { name: other.clone(), source, options };
        bench.turn(create_other).unwrap();
        let stack = "(SELECT id FROM stacks WHERE name = 's')";
        damages(&mut bench, &format!("UPDATE resources SET {column} WHERE stack_id = {stack}"));
        bench.driver.wake();
        bench.driver.turn_over();
        let view = bench.driver.turns.view().stack_view(&name()).unwrap();
        assert_eq!(view.status, "FAILED", "{column}");
        let told = &view.status_reason;
        assert!(told.contains("resource 'a'") && told.contains("restore a backup"), "{column}: {told}");
        let Request::Create { source, .. } = create(3) else { panic!("a create") };
        let update = |name| Request::Update { name, source: source.clone(), options: Options::default() };
        let refused = bench.turn(update(name()));
        assert!(matches!(&refused, Err(Refusal::Conflict(why)) if why == told), "{column}: {refused:?}");
        bench.turn(update(other)).unwrap();
        bench.turn(Request::Delete { name: name() }).unwrap();
        let db = rusqlite::Connection::open(bench.dir.path().join("muster.db")).unwrap();
        let left = db.query_row(
            "SELECT count(*) FROM resources JOIN stacks ON stack_id = stacks.id WHERE stacks.name = 's'",
            [],
            |row| row.get(0),
        );
        assert_eq!(left, Ok(0), "{column}");
    }
}

#[test]
fn a_stack_or_a_token_that_cannot_be_read_is_left_out() {
    let mut bench = Bench::new();
    bench.turn(create(1)).unwrap();
    damages(&mut bench, "UPDATE stacks SET outputs = zeroblob(9)");
    assert!(bench.driver.turns.view().stack_view(&name()).is_none());
    bench.driver.wake();
    bench.driver.turn_over();
    let db = rusqlite::Connection::open(bench.dir.path().join("muster.db")).unwrap();
    let left = db.query_row("SELECT count(*) FROM resources", [], |row| row.get(0));
    assert_eq!(left, Ok(1), "it stays in the database");
}

#[test]
fn a_token_that_cannot_be_read_is_not_valid() {
    let mut bench = Bench::new();
    let token = |id: u8| NewToken {
        id: [id; 8],
        secret_hash: [id; 32],
        expires: u64::MAX / 4,
        uses: 1,
        name: None,
        labels: BTreeMap::new(),
        rate: None,
    };
    for id in [2, 3] {
        bench.turn(Request::NewToken { token: token(id), wall: 1 }).unwrap();
    }
    damages(&mut bench, "UPDATE tokens SET labels = 'x' WHERE id = '0202020202020202'");
    bench.driver.wake();
    assert!(bench.turn(Request::RevokeToken { id: [2; 8] }).is_err());
    bench.turn(Request::RevokeToken { id: [3; 8] }).unwrap();
}
