//! A program in a folder of strangers. It is the only test of this file, since it changes the
//! process's current folder.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use rampmeter_nats_server::{Cache, Version};

#[tokio::test]
async fn no_module_of_the_current_folder_is_imported() {
    let (strange, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for module in ["pip", "zipfile"] {
        std::fs::write(strange.path().join(format!("{module}.py")), "raise SystemExit('imported')").unwrap();
    }
    std::env::set_current_dir(strange.path()).unwrap();
    let binary = Cache::at(cache.path()).binary().await.unwrap();
    assert!(binary.version() >= Version::OLDEST);
}
