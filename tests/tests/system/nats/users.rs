//! Users of NATS that log in with a key: an `NKey`, or a JWT with its seed. No log, error or
//! command line shows a seed.

use crate::prelude::*;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use rampmeter_tests::process::run_in;

/// The value of a claim without a bound.
const UNBOUNDED: i64 = -1;

/// A server, and a folder with the files of its users.
struct Guarded {
    folder: TempDir,
    nats: Server,
}

impl Guarded {
    async fn start(configuration: &str) -> Self {
        let (folder, nats) = nats::configured(configuration).await;
        Guarded { folder, nats }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        file
    }

    fn configuration(&self, key: &str, file: &Path) -> String {
        let keyed = format!("[nats]\n{key} = {file:?}");
        scheduler::configuration(self.nats.url(), HUNDRED).replace("[nats]", &keyed)
    }

    async fn client(&self, key: &str, file: &Path) -> Result<Client, rampmeter_worker_sdk::Error> {
        let client = match key {
            "nkey_file" => Client::builder().nkey_file(file),
            _ => Client::builder().credentials_file(file),
        };
        client.connect(self.nats.url()).await
    }
}

/// A claim that `issuer` signs.
fn jwt(issuer: &KeyPair, subject: &KeyPair, nats: Value, expires: Option<u64>) -> String {
    let encode = |claims: &Value| URL_SAFE_NO_PAD.encode(claims.to_string());
    let head = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let mut claims = json!({
        "jti": "a", "iat": 1_600_000_000, "iss": issuer.public_key(), "sub": subject.public_key(), "name": "a", "nats": nats,
    });
    if let Some(expires) = expires {
        claims["exp"] = expires.into();
    }
    let signed = format!("{}.{}", encode(&head), encode(&claims));
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

/// The account of `rampmeter`, whose users get credentials.
struct Account {
    key: KeyPair,
    configuration: String,
}

impl Account {
    fn new() -> Self {
        let (operator, system, key) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
        let account = |key: &KeyPair, stored: i64| {
            let limits = json!({
                "subs": UNBOUNDED, "data": UNBOUNDED, "payload": UNBOUNDED, "imports": UNBOUNDED, "exports": UNBOUNDED,
                "wildcards": true, "conn": UNBOUNDED, "leaf": UNBOUNDED,
                "mem_storage": stored, "disk_storage": stored, "streams": stored, "consumer": stored,
            });
            let claim = json!({"limits": limits, "default_permissions": {"pub": {}, "sub": {}}, "type": "account", "version": 2});
            format!("{}: \"{}\"", key.public_key(), jwt(&operator, key, claim, None))
        };
        let of_operator = jwt(&operator, &operator, json!({"type": "operator", "version": 2}), None);
        let configuration = format!(
            "operator: \"{of_operator}\"\nsystem_account: {}\nresolver: MEMORY\nresolver_preload {{\n{}\n{}\n}}\n",
            system.public_key(),
            account(&system, 0),
            account(&key, UNBOUNDED),
        );
        Account { key, configuration }
    }

    /// The text of a credentials file, and the seed in it.
    fn credentials(&self, expires: Option<u64>) -> (String, String) {
        let user = KeyPair::new_user();
        let unbounded = json!({
            "pub": {}, "sub": {}, "subs": UNBOUNDED, "data": UNBOUNDED, "payload": UNBOUNDED, "type": "user", "version": 2,
        });
        let (token, seed) = (jwt(&self.key, &user, unbounded, expires), user.seed().unwrap());
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        (text, seed)
    }
}

/// Schedulers, workers and commands come in with this file; nothing shows the seed in it.
async fn check_comes_in(guarded: &Guarded, (key, option): (&str, &str), file: &Path, seed: &str) {
    let trace = [("RAMPMETER_LOG", "trace")];
    let mut process = Process::begin_in(RAMPMETER, &guarded.configuration(key, file), &[], &trace);
    process.until_ready().await;
    let client = guarded.client(key, file).await.unwrap();
    let permit = within("a permit", client.resource("hub").unwrap().acquire(1).into_future()).await.unwrap();
    permit.begin().settle(Outcome::status(200));
    let arguments = ["status", "--nats", guarded.nats.url(), option, file.to_str().unwrap()];
    let status = run_in(RAMPMETER, &arguments, &trace).await;
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let command_line = std::fs::read(format!("/proc/{}/cmdline", process.id())).unwrap();
    process.terminate();
    process.ended().await;
    let said = [process.log().into_bytes(), status.stdout, status.stderr, command_line].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("every user of this machine may read the file "), "as every user may here");
    assert!(!said.contains(seed), "the seed was shown");
}

/// Schedulers, workers and commands stay out, and are told so without the seed.
async fn check_stays_out(guarded: &Guarded, (key, option): (&str, &str), file: &Path, reason: &str, seed: &str) {
    let scheduler = scheduler::refused(&guarded.configuration(key, file)).await;
    let client = guarded.client(key, file).await.expect_err("refused");
    let status = printed_at(&guarded.nats, &["status", option, file.to_str().unwrap()]).await.unwrap_err();
    let messages = [scheduler, status];
    assert!(messages.iter().all(|message| message.contains(reason)), "{messages:?} does not say {reason:?}");
    assert!(!format!("{messages:?}{client}{client:?}").contains(seed), "{messages:?} {client:?}");
}

const NKEY: (&str, &str) = ("nkey_file", "--nkey-file");
const CREDENTIALS: (&str, &str) = ("credentials_file", "--credentials-file");
const REFUSED: &str = "does not take this user and password, or these credentials";

#[tokio::test]
async fn an_nkey_in_a_file_opens_a_server_that_knows_it() {
    let (known, stranger) = (KeyPair::new_user(), KeyPair::new_user());
    let users = format!("authorization {{ users: [ {{ nkey: {} }} ] }}", known.public_key());
    let guarded = Guarded::start(&users).await;
    let seed = known.seed().unwrap();
    // As `nk` writes it, and with the frame of a credentials file.
    let framed = format!("-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n");
    for text in [format!("{seed}\n"), framed] {
        check_comes_in(&guarded, NKEY, &guarded.file("user.nk", &text), &seed).await;
    }
    let other = stranger.seed().unwrap();
    check_stays_out(&guarded, NKEY, &guarded.file("stranger.nk", &other), REFUSED, &other).await;
    let public = guarded.file("public.nk", &known.public_key());
    check_stays_out(&guarded, NKEY, &public, "public.nk has not the seed of a NATS user", &seed).await;
    let nowhere = guarded.folder.path().join("nowhere.nk");
    check_stays_out(&guarded, NKEY, &nowhere, "nowhere.nk can't be read: No such file", &seed).await;
}

#[tokio::test]
async fn a_jwt_in_a_file_opens_the_account_that_issued_it_until_it_expires() {
    let account = Account::new();
    let guarded = Guarded::start(&account.configuration).await;
    let (text, seed) = account.credentials(None);
    check_comes_in(&guarded, CREDENTIALS, &guarded.file("user.creds", &text), &seed).await;
    let (text, seed) = account.credentials(Some(1_700_000_000));
    check_stays_out(&guarded, CREDENTIALS, &guarded.file("expired.creds", &text), REFUSED, &seed).await;
    let (text, seed) = Account::new().credentials(None);
    check_stays_out(&guarded, CREDENTIALS, &guarded.file("stranger.creds", &text), REFUSED, &seed).await;
    let half = text.split_once("-----BEGIN USER").unwrap().0;
    let reason = "half.creds has not the JWT and the seed of a NATS user";
    check_stays_out(&guarded, CREDENTIALS, &guarded.file("half.creds", half), reason, &seed).await;
}

/// Where NATS keeps users apart by their inboxes, a made-up one is a user that does not exist.
#[tokio::test]
async fn messages_with_inboxes_of_no_user_are_dropped_unread_and_counted() {
    let nats = nats::start().await;
    let text = scheduler::configuration(nats.url(), HUNDRED).replace("[nats]", "[nats]\ninboxes = [\"_INBOX_a\"]");
    let scheduler = scheduler::start_by(&text).await;
    let client = nats::connect(&nats).await;
    let mut answers = client.subscribe(">").await.unwrap();
    let own = ["_INBOX_a.x.1", "_INBOX.x.1"];
    for reply in
        ["u1.a.1", "_INBOX_aa.x.1", "_INBOX_a", "rampmeter.event.hub", "$KV.rampmeter.state.hub"].into_iter().chain(own)
    {
        let payload = json!({"id": reply.replace(['.', '$'], "-")}).to_string();
        client.publish_with_reply("rampmeter.permit.hub", reply, payload.into()).await.unwrap();
    }
    let mut heard = BTreeSet::new();
    while !own.iter().all(|inbox| heard.contains(*inbox)) {
        let answer = within("an answer", answers.next()).await.unwrap();
        if answer.reply.is_none() {
            heard.insert(answer.subject.to_string());
        }
    }
    assert!(!heard.contains("u1.a.1") && !heard.contains("_INBOX_aa.x.1"), "{heard:?}");
    let page = scheduler::metrics(&scheduler).await;
    assert_eq!(page.value("rampmeter_foreign_replies_total", &[("resource", "hub")]), 4.0);
    assert_eq!(page.value("rampmeter_granted_total", &[("resource", "hub")]), 3.0);
    scheduler::stop(scheduler).await;
}
