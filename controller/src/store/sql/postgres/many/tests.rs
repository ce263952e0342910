//! The form for many rows, and the order in which rows reach the database.

use super::*;
use crate::store::sql::{Db, Value, values};
use crate::store::testing::Place;

fn form(sql: &str, types: &[Type]) -> Many {
    Many::new(sql, types).unwrap()
}

#[test]
fn the_form_for_many_rows_follows_from_that_for_one() {
    let upsert = "INSERT INTO t (a, b, c) VALUES (?, ?, ?) ON CONFLICT (a, b) DO UPDATE SET c = excluded.c";
    for (sql, columns, wanted, table, key, is_distinct) in [
        (
            upsert,
            3,
            "INSERT INTO t (a, b, c) SELECT v.c1, v.c2, v.c3 FROM unnest($1, $2, $3) AS v (c1, c2, c3) \
             ON CONFLICT (a, b) DO UPDATE SET c = excluded.c",
            "t",
            2,
            true,
        ),
        (
            "INSERT INTO t VALUES (?1, 'a?', ?2) ON CONFLICT DO NOTHING",
            2,
            "INSERT INTO t SELECT v.c1, 'a?', v.c2 FROM unnest($1, $2) AS v (c1, c2) ON CONFLICT DO NOTHING",
            "t",
            2,
            false,
        ),
        (
            "UPDATE t SET b = ?2,\n c = ?3 WHERE a = ?1",
            3,
            "UPDATE t SET b = v.c2,\n c = v.c3 FROM unnest($1, $2, $3) AS v (c1, c2, c3) WHERE a = v.c1",
            "t",
            1,
            true,
        ),
        (
            "DELETE FROM t WHERE a = ?1 AND b <= ?2",
            2,
            "DELETE FROM t USING unnest($1, $2) AS v (c1, c2) WHERE a = v.c1 AND b <= v.c2",
            "t",
            2,
            false,
        ),
    ] {
        let many = form(sql, &vec![Type::INT8; columns]);
        assert_eq!(many.text, wanted);
        assert_eq!((&*many.table, many.key, many.is_distinct), (table, key, is_distinct), "{sql}");
    }
    assert!(
        Many::new(upsert, &[Type::INT8, Type::JSON, Type::INT8]).unwrap_err().to_string().contains("json")
    );
}

#[test]
fn an_array_has_all_values_of_a_column() {
    let many = form("INSERT INTO t VALUES (?, ?)", &[Type::INT8, Type::TEXT]);
    let row = |number: i64, text: Option<&str>| Row::new(&many, values![number, text], None).unwrap();
    let rows = [row(7, Some("a\0ü")), row(8, None), row(9, Some(""))];
    let mut out = BytesMut::new();
    Column { rows: &rows, at: 1 }.to_sql(&Type::TEXT_ARRAY, &mut out).unwrap();
    let texts: Vec<Option<String>> =
        tokio_postgres::types::FromSql::from_sql(&Type::TEXT_ARRAY, &out).unwrap();
    assert_eq!(texts, [Some("a\u{2400}ü".to_owned()), None, Some(String::new())]);
    out.clear();
    Column { rows: &rows, at: 0 }.to_sql(&Type::INT8_ARRAY, &mut out).unwrap();
    let numbers: Vec<i64> = tokio_postgres::types::FromSql::from_sql(&Type::INT8_ARRAY, &out).unwrap();
    assert_eq!(numbers, [7, 8, 9]);
    assert!(!format!("{:?}", rows[0]).contains('a'.to_string().repeat(2).as_str()));
    let misfit = Row::new(&many, values!["s3cret", ""], None).unwrap_err().to_string();
    assert_eq!(misfit, "a text cannot be a int8");
}

/// Statements of one table that overwrite each other, and what they make of a row.
const STATEMENTS: [&str; 5] = [
    "INSERT INTO t (a, b, c) VALUES (?, ?, ?) ON CONFLICT (a, b) DO UPDATE SET c = excluded.c",
    "UPDATE t SET c = t.c || ?3 WHERE a = ?1 AND b = ?2",
    "DELETE FROM t WHERE a = ?1 AND b >= ?2 AND ?3 <> ''",
    "INSERT INTO t VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    "INSERT INTO u VALUES (?1, ?2, ?3)",
];

/// Whatever comes in whatever order, the tables hold what single statements make of it.
#[test]
fn rows_come_out_as_if_they_were_written_one_by_one() {
    let place = Place::postgres();
    let store = place.open();
    let db = store.db();
    db.batch(
        "CREATE TABLE t (a BIGINT, b BIGINT, c TEXT, PRIMARY KEY (a, b)); CREATE TABLE u (a BIGINT, b BIGINT, c TEXT)",
    )
    .unwrap();
    let mut random = 1u64;
    let mut below = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((random >> 33) % bound).unwrap()
    };
    for round in 0..30 {
        let steps: Vec<_> = (0..200)
            .map(|step| {
                (STATEMENTS[usize::try_from(below(5)).unwrap()], below(6), below(3), format!("{step} "))
            })
            .collect();
        let run = |is_many: bool| {
            db.transaction(|| {
                db.batch("TRUNCATE t, u")?;
                for (sql, a, b, c) in &steps {
                    let mut statement = if is_many { db.prepare_many(sql)? } else { db.prepare(sql)? };
                    statement.execute(values![a, b, c])?;
                }
                Ok(())
            })
            .unwrap();
            place.run("SELECT * FROM t ORDER BY a, b; SELECT * FROM u ORDER BY c")
        };
        assert_eq!(run(true), run(false), "round {round}");
    }
}

/// Whichever of two statements about the same place was first, from their second use on they go in their order.
#[test]
fn the_order_of_statements_is_learned() {
    let place = Place::postgres();
    let store = place.open();
    let Db::Postgres(link) = store.db() else { panic!("it is PostgreSQL") };
    store
        .db()
        .transaction(|| {
            let mut put = store.db().prepare_many("INSERT INTO graph VALUES (?1, ?2)")?;
            let mut remove = store.db().prepare_many("DELETE FROM graph WHERE needed_by = ?1")?;
            put.execute(values![0i64, 0i64])?;
            for id in 1..=300i64 {
                remove.execute(values![id])?;
                put.execute(values![id, 0i64])?;
            }
            let waiting: usize =
                link.session(|session| session.queue.batches.iter().map(|batch| batch.rows.len()).sum())?;
            assert_eq!(waiting, 599, "all but the first two");
            Ok(())
        })
        .unwrap();
    assert_eq!(place.run("SELECT count(*) FROM graph"), "301");
}

#[test]
fn rows_that_wait_go_with_their_transaction() {
    let place = Place::postgres();
    let store = place.open();
    let db = store.db();
    let put = |id: i64| db.prepare_many("INSERT INTO graph VALUES (?1, ?2)")?.execute(values![id, 0i64]);
    let given_up: Result<(), StoreError> = db.transaction(|| {
        put(1)?;
        Err(StoreError::Format("given up".to_owned()))
    });
    assert!(given_up.is_err());
    db.transaction(|| put(2)).unwrap();
    assert_eq!(place.run("SELECT string_agg(needed_by::text, ' ') FROM graph"), "2");
}

#[test]
fn a_row_outside_of_a_transaction_is_written_at_once() {
    let place = Place::postgres();
    let store = place.open();
    let put = "INSERT INTO graph VALUES (?1, ?2)";
    store.db().prepare_many(put).unwrap().execute(values![1i64, 2i64]).unwrap();
    let Db::Postgres(link) = store.db() else { panic!("it is PostgreSQL") };
    link.settle().unwrap();
    assert_eq!(place.run("SELECT * FROM graph"), "1|2");
}

#[test]
fn a_row_is_found_by_the_detail_of_an_error() {
    let many = Arc::new(form("INSERT INTO events VALUES (?, ?, ?)", &[Type::INT8, Type::INT8, Type::TEXT]));
    let row =
        |number: i64| Row::new(&many, values![1i64, number, "s3cret"], Some(format!("{number}").into()));
    let rows: Vec<Row> = [7, 70, 700].into_iter().map(|number| row(number).unwrap()).collect();
    let rows = Rows { many: Arc::clone(&many), rows: rows.into() };
    for (detail, wanted) in [
        ("Key (stack_id, number)=(1, 70) already exists.", Some(1)),
        ("Schlüssel »(stack_id, number)=(1, 7)« existiert bereits.", Some(0)),
        ("Failing row contains (1, 700, (1, 7), null).", Some(2)),
        ("Key (stack_id, number)=(1, 71) already exists.", None),
        ("Key (stack_id)=(1", None),
        ("(", None),
    ] {
        assert_eq!(rows.row_in(detail), wanted, "{detail}");
    }
    let null = Row::new(&many, &[Value::Null, Value::Integer(3), Value::Null], None).unwrap();
    assert_eq!(null.named(&many), "null, 3");
}
