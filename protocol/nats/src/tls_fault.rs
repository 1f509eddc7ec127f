//! TLS faults in words.

use async_nats::rustls::{AlertDescription, CertificateError, Error as TlsError};
use std::error::Error as StdError;
use std::io;

/// Returns why TLS failed in `error`, in words about the server; `None` if it did not.
#[must_use]
pub fn tls_fault(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut link = Some(error);
    while let Some(error) = link {
        if let Some(fault) = of_tls(error) {
            return Some(in_words(fault));
        }
        link = error.source();
    }
    None
}

/// The TLS fault in this link of a chain. A stream's error holds it inside, not as its source.
fn of_tls<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a TlsError> {
    let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    error.downcast_ref().or_else(|| inside?.downcast_ref())
}

fn in_words(fault: &TlsError) -> String {
    if let TlsError::InvalidCertificate(certificate) = fault {
        return certificate_in_words(certificate);
    }
    if let TlsError::AlertReceived(alert) = fault {
        return match *alert == AlertDescription::CertificateRequired {
            true => "it wants a certificate of this client".to_owned(),
            false => format!("it refuses this client or its certificate ({alert:?})"),
        };
    }
    match matches!(fault, TlsError::InvalidMessage(_)) {
        true => "it does not speak TLS".to_owned(),
        false => fault.to_string(),
    }
}

fn certificate_in_words(fault: &CertificateError) -> String {
    use CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet, NotValidYetContext,
        UnknownIssuer,
    };
    let known = [
        (matches!(fault, Expired | ExpiredContext { .. }), "its certificate has expired"),
        (matches!(fault, NotValidYet | NotValidYetContext { .. }), "its certificate is not valid yet"),
        (matches!(fault, UnknownIssuer), "its certificate is of no authority that is trusted here"),
        (
            matches!(fault, NotValidForName | NotValidForNameContext { .. }),
            "its certificate is for other names or addresses",
        ),
    ];
    let words = known.into_iter().find_map(|(is_it, words)| is_it.then_some(words));
    words.map_or_else(|| format!("its certificate is not valid: {fault}"), str::to_owned)
}
