//! The words that scheduler and SDK share: messages, subjects, units and time.
