//! What this program is built from: images by digest, pinned actions, and a bill of materials. Licences,
//! sources and duplicates are for `cargo deny`.

use rampmeter_tests::repository::{self, File, file, files};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

#[test]
fn images_have_digests() {
    let docker = file("deploy/Dockerfile").unwrap().text;
    let compose = file("deploy/compose.yaml").unwrap().text;
    let images = docker.lines().filter_map(|line| line.strip_prefix("FROM "));
    let images = images.chain(compose.lines().filter_map(|line| line.trim().strip_prefix("image: ")));
    let foreign: Vec<&str> =
        images.filter(|image| !image.starts_with("scratch") && !image.starts_with("rampmeter")).collect();
    assert_eq!(foreign.len(), 2, "{foreign:?}");
    for image in foreign {
        let digest = image.split_once("@sha256:").unwrap_or_else(|| panic!("{image}")).1;
        let digest = digest.split(' ').next().unwrap();
        assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{image}");
    }
}

/// A tag or a branch of an action can be moved; what ran once with the rights of this repository is run again.
#[test]
fn workflows_run_pinned_programs_with_the_least_rights() {
    let workspace: toml::Table = file("Cargo.toml").unwrap().text.parse().unwrap();
    let oldest = workspace["workspace"]["package"]["rust-version"].as_str().unwrap();
    let workflows = files(".github/workflows", "yml");
    assert!(workflows.len() >= 4);
    for File { path, text } in &workflows {
        let used = text.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("uses: "));
        for action in used.clone() {
            let (_, version) = action.split_once('@').unwrap_or_else(|| panic!("{path}: {action}"));
            let (hash, name) = version.split_once(" # v").unwrap_or_else(|| panic!("{path}: {action} has no version"));
            assert!(hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{path}: {action}");
            assert_eq!(name.split('.').filter(|number| number.parse::<u32>().is_ok()).count(), 3, "{path}: {action}");
        }
        let checkouts = used.filter(|action| action.starts_with("actions/checkout@")).count();
        assert_eq!(text.matches("persist-credentials: false").count(), checkouts, "{path}: no step keeps the token");
        let (_, toolchain) = text.split_once("RUSTUP_TOOLCHAIN: \"").unwrap_or_else(|| panic!("{path}"));
        assert!(toolchain.starts_with(&format!("{oldest}.")), "{path}: a version, the oldest that is promised");
        let (head, jobs) = text.split_once("\njobs:\n").unwrap();
        assert!(head.contains("\npermissions: {}\n"), "{path}: rights are given to jobs alone");
        let publishes = path.ends_with("/release.yml");
        assert!(publishes || !jobs.contains(": write"), "{path}");
    }
}

/// The context of an image is what cargo reads, and no secret that a user of the documents has beside it.
#[test]
fn images_and_commits_take_no_secrets() {
    let context = file("deploy/Dockerfile.dockerignore").unwrap().text;
    let mut rules = context.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(rules.next(), Some("*"), "what is not listed stays outside");
    let workspace: toml::Table = file("Cargo.toml").unwrap().text.parse().unwrap();
    let members = workspace["workspace"]["members"].as_array().unwrap().iter();
    let mut needed: BTreeSet<&str> =
        members.map(|member| member.as_str().unwrap().split('/').next().unwrap()).collect();
    needed.extend([".cargo", "Cargo.lock", "Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT"]);
    assert_eq!(rules.clone().filter_map(|rule| rule.strip_prefix('!')).collect::<BTreeSet<_>>(), needed);
    let kept_out = file(".gitignore").unwrap().text;
    for secret in ["*.creds", "*.env", "*.key", "*.nk", "*.pem"] {
        assert!(rules.clone().any(|rule| rule == format!("**/{secret}")), "{secret} in an image");
        assert!(kept_out.lines().any(|rule| rule == secret), "{secret} in a commit");
    }
}

/// The rights of each service are stated once, and no service is left out.
#[test]
fn every_container_is_closed() {
    let compose = file("deploy/compose.yaml").unwrap().text;
    let (shared, services) = compose.split_once("\nservices:\n").unwrap();
    let services = services.split_once("\nvolumes:\n").unwrap().0;
    let is_name =
        |line: &&str| line.starts_with("  ") && line.trim_start().len() + 2 == line.len() && line.ends_with(':');
    let names = services.lines().filter(is_name).count();
    let merged = services.matches("    <<: *scheduler\n").count();
    assert_eq!((names, merged), (6, 5), "all but NATS share what follows");
    let nats = services.split_once("  scheduler-a:").unwrap().0;
    for rule in [
        "read_only: true",
        "cap_drop: [ALL]",
        "security_opt: [\"no-new-privileges:true\"]",
        "mem_limit:",
        "pids_limit:",
    ] {
        assert!(shared.contains(rule) && nats.contains(rule), "{rule}");
    }
}

#[test]
fn the_service_dumps_no_core_and_has_a_bound_of_memory() {
    let unit = file("deploy/systemd/rampmeter.service").unwrap().text;
    for line in ["LimitCORE=0", "MemoryMax=2G", "NoNewPrivileges=yes"] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
}

#[test]
fn the_bill_of_materials_names_what_the_program_is_built_from() {
    let output = Command::new("python3").arg(repository::root().join("deploy/sbom.py")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bill: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&Value::from("CycloneDX"), &Value::from("1.6")));
    let components = bill["components"].as_array().unwrap();
    let names: BTreeSet<&str> = components.iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert!(names.contains("tokio") && names.contains("rampmeter-scheduler-core"), "{names:?}");
    assert!(!names.contains("proptest") && !names.contains("rampmeter-tests"), "{names:?}");
    for part in components {
        let is_ours = part["name"].as_str().unwrap().starts_with("rampmeter-");
        assert!(part["licenses"][0]["expression"].is_string(), "{part}");
        assert_eq!(part["hashes"][0]["content"].is_string(), !is_ours, "{part}");
    }
    let listed = bill["dependencies"].as_array().unwrap().len();
    assert_eq!(listed, components.len() + 1, "each package, and the program, tells what it needs");
}

/// Python takes a module from the current folder first, unless it is told not to.
#[test]
fn no_python_module_is_taken_from_the_current_folder() {
    for file in files("", "rs").into_iter().filter(|file| file.text.contains(concat!("Command::new(\"pyth", "on3\")")))
    {
        let runs_module = file.text.contains(concat!("\"-", "m\"")) || file.text.contains(concat!("-", "m pip"));
        assert!(!runs_module || file.text.contains("PYTHONSAFEPATH"), "{}", file.path);
    }
}
