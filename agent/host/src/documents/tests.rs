use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use tempfile::TempDir;
use uuid::Uuid;

use super::*;

const RESOURCE: ResourceId = ResourceId(Uuid::from_u128(7));

fn documents() -> (TempDir, Documents) {
    let dir = tempfile::tempdir().unwrap();
    let documents = Documents::new(dir.path().join("state"));
    (dir, documents)
}

fn config(dir: &TempDir, entries: &[(&str, &str)]) -> Vec<u8> {
    let entries = entries.iter().map(|(name, document)| format!("{:?}: {document}", dir.path().join(name)));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(",")).into_bytes()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[tokio::test]
async fn documents_are_written_like_heat_and_old_files_are_restored() {
    let (dir, documents) = documents();
    let (there, new) = (dir.path().join("there"), dir.path().join("a/b/new"));
    fs::write(&there, "mine").unwrap();
    fs::set_permissions(&there, fs::Permissions::from_mode(0o640)).unwrap();
    let first = config(&dir, &[("there", r#"{"b":[1,{}],"a":"ä"}"#), ("a/b/new", "[\"bar\", \"bar2\"]")]);
    documents.write(RESOURCE, &first).await.unwrap();
    let text = "{\n    \"a\": \"ä\",\n    \"b\": [\n        1,\n        {}\n    ]\n}";
    assert_eq!(fs::read_to_string(&there).unwrap(), text);
    assert_eq!(fs::read_to_string(&new).unwrap(), "[\n    \"bar\",\n    \"bar2\"\n]");
    assert_eq!((mode(&there), mode(&new)), (0o640, 0o644));
    assert!(documents.check_written(RESOURCE, &first).await.unwrap().is_empty());
    fs::write(&new, "other").unwrap();
    let differs = documents.check_written(RESOURCE, &first).await.unwrap();
    assert!(differs.len() == 1 && differs[0].starts_with(new.to_str().unwrap()), "{differs:?}");

    // Another path: the one that is not written any more is as it was, what was there first is still known.
    documents.write(RESOURCE, &config(&dir, &[("there", "2")])).await.unwrap();
    assert!(!new.exists());
    let again = Documents::new(dir.path().join("state"));
    again.restore(RESOURCE).await.unwrap();
    assert_eq!((fs::read_to_string(&there).unwrap().as_str(), mode(&there)), ("mine", 0o640));
    again.restore(RESOURCE).await.unwrap();
    assert!(!dir.path().join("state/json-files").join(RESOURCE.to_string()).exists());
}

#[tokio::test]
async fn a_document_error_hides_the_content_and_changes_nothing() {
    let (dir, documents) = documents();
    for wrong in [
        "hunter2",
        "[]",
        r#"{"etc/x": "hunter2"}"#,
        r#"{"/etc/../x": 1}"#,
        r#"{"/": 1}"#,
        r#"{"/a/": 1}"#,
        r#"{"/proc/self/x": 1}"#,
    ] {
        let error = documents.write(RESOURCE, wrong.as_bytes()).await.unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
    fs::create_dir(dir.path().join("directory")).unwrap();
    let both = config(&dir, &[("a", "1"), ("directory", "1")]);
    assert!(matches!(documents.write(RESOURCE, &both).await, Err(DocumentError::File(_))));
    assert!(!dir.path().join("a").exists());
}

/// A user's directory, which they could replace by a link to one of root's.
#[tokio::test]
async fn a_json_file_below_a_users_directory_is_refused_by_its_name() {
    let (dir, documents) = documents();
    let theirs = dir.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    std::os::unix::fs::chown(&theirs, Some(65534), Some(65534)).unwrap();
    for name in ["theirs/app.json", "theirs/made/app.json"] {
        let error = documents.write(RESOURCE, &config(&dir, &[(name, "1")])).await.unwrap_err().to_string();
        assert!(error.contains(&format!("(chown root {}", theirs.display())), "{error}");
    }
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0, "not even a directory is made");
}

#[tokio::test]
async fn an_applied_document_is_private_and_goes_with_its_resource() {
    let (dir, documents) = documents();
    documents.withdraw(RESOURCE).await.unwrap();
    documents.apply_config(RESOURCE, br#"{"z":{"y":1},"a":null}"#).await.unwrap();
    let path = dir.path().join("state/apply-config").join(format!("{RESOURCE}.json"));
    let text = "{\n    \"a\": null,\n    \"z\": {\n        \"y\": 1\n    }\n}";
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), (text, 0o600));
    assert!(documents.check_applied(RESOURCE, br#"{"a":null,"z":{"y":1}}"#).await.unwrap().is_empty());
    assert!(!documents.check_applied(RESOURCE, b"{}").await.unwrap().is_empty());
    assert!(documents.apply_config(RESOURCE, b"[1]").await.is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    documents.withdraw(RESOURCE).await.unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn records_of_resources_that_are_gone_go_without_their_files() {
    let (dir, documents) = documents();
    documents.sweep(|_| false).unwrap();
    documents.write(RESOURCE, &config(&dir, &[("a", "1")])).await.unwrap();
    documents.sweep(|resource| resource == RESOURCE).unwrap();
    let record = dir.path().join("state/json-files").join(RESOURCE.to_string());
    assert!(record.exists());
    documents.sweep(|_| false).unwrap();
    assert!(!record.exists() && dir.path().join("a").exists());
}
