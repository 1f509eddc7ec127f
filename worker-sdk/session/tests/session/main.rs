//! The session in virtual time: only events and numbers decide what it does.

/// Declares a test for each name: the script that it plays.
macro_rules! scripts {
    ($($(#[$about:meta])* $name:ident: $script:literal)*) => {
        $($(#[$about])* #[test] fn $name() { crate::script::check($script); })*
    };
}

mod fleet;
mod heals;
mod herd;
mod lateness;
mod leases;
mod network;
mod prices;
mod relaying;
mod rules;
mod script;
mod session_scripts;
mod silence_report;
mod subject_classes;
mod unreachable;
