//! The class of a request whose subject names one. The permissions of a NATS user deny subjects, so
//! the subject decides.

use crate::prelude::*;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::text::Text;
use rampmeter_scheduler_core::wire;

/// The class of a request that names `stated`, on a subject that names `permitted`; or the code and
/// the text of its refusal.
fn class_of(stated: Option<&str>, permitted: Option<&str>) -> Result<String, (&'static str, String)> {
    let classes = ["urgent", "standard", "bulk"].map(|called| class(called, 0.0)).into();
    let default_class = Some(name("standard"));
    let hub = Resource::new(&ResourceSpec { classes, default_class, ..resource(ten_per_second().limits) }).unwrap();
    let request = PermitRequest { class: stated.map(Text::from), ..PermitRequest::default() };
    match wire::ask(&hub, (), "", PermitId::secret(1), &request, permitted.map(name).as_ref()) {
        Ok(ask) => Ok(hub.classes()[ask.class.index()].name.to_string()),
        Err(((), refusal)) => Err((refusal.code().as_str(), refusal.to_string())),
    }
}

#[test]
fn the_class_in_the_subject_is_the_only_one_that_a_request_may_have() {
    #[rustfmt::skip]
    let table = [
        // stated           permitted           class
        (None,              None,               Some("standard")),
        (Some("urgent"),    None,               Some("urgent")),
        (None,              Some("bulk"),       Some("bulk")),
        (Some("bulk"),      Some("bulk"),       Some("bulk")),
        (None,              Some("standard"),   Some("standard")),
        (Some("urgent"),    Some("bulk"),       None),
        (Some("standard"),  Some("bulk"),       None),
        (Some("bulk"),      Some("urgent"),     None),
    ];
    for (stated, permitted, expected) in table {
        let found = class_of(stated, permitted);
        assert_eq!(found.clone().ok().as_deref(), expected, "{stated:?} on {permitted:?}");
        assert!(found.is_ok() || found.is_err_and(|(code, _)| code == "invalid_request"));
    }
}

#[test]
fn a_refusal_says_what_the_subject_is_for() {
    let said = "`class`: this subject is for `bulk`; leave `class` out, or ask on the subject of the other class";
    assert_eq!(class_of(Some("urgent"), Some("bulk")), Err(("invalid_request", said.to_owned())));
    let known = "`class`: no such class; there are `urgent`, `standard`, `bulk`";
    assert_eq!(class_of(None, Some("bluk")), Err(("unknown_class", known.to_owned())));
}
